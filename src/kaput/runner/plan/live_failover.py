"""Fails groups over between running clusters: `kaput failover`. Sets their positions to a mirror's
checkpoints.

Producers and members are not kaput's here: the user repoints them. This does the part that is easy to get
wrong. Steps return proofs, as those of a plan do (steps.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from kaput.cluster.existing_cluster import ExistingCluster
from kaput.cluster.kafka_cluster import ClusterAddress
from kaput.cluster.mirrors.records import checkpoints_topic
from kaput.core import TopicPartition
from kaput.errors import LabError
from kaput.runner.mirrors.watching import COMMIT_S, from_checkpoints


@dataclass(frozen=True)
class StepDone:
    """One step's outcome, and the proof that it worked, or why it did not."""

    step: str
    outcome: str  # done, failed, skipped
    seconds: float
    proof: str


def fail_over(
    source: ClusterAddress, target: ClusterAddress, alias: str, groups: Sequence[str], dry_run: bool
) -> Iterator[StepDone]:
    """Yields each step as it ends. `alias`: the source's name at the mirror; `dry_run`: commits nothing."""
    yield _step("notice", lambda: _notice(source))
    for group in groups:
        yield _step(f"move-groups {group}", partial(_move_group, target, alias, group, dry_run))


def _step(name: str, do: Callable[[], str]) -> StepDone:
    began = time.monotonic()
    try:
        outcome, proof = "done", do()
    except LabError as error:
        outcome, proof = "failed", str(error)
    return StepDone(name, outcome, round(time.monotonic() - began, 3), proof)


def _notice(source: ClusterAddress) -> str:
    try:
        ExistingCluster(source.servers, source.access).refresh()
    except LabError as error:
        return f"{source.name} does not answer: {error}"
    return f"{source.name} answers: stop its producers first, and wait until the mirror has copied everything"


def _move_group(target: ClusterAddress, alias: str, group: str, dry_run: bool) -> str:
    cluster, topic = ExistingCluster(target.servers, target.access), checkpoints_topic(alias)
    cluster.refresh()
    wanted = from_checkpoints(target.servers, target.access, topic, group)
    if not wanted:
        raise LabError(
            f"{topic} in {target.name} has no checkpoint of {group}; is the group listed in the mirror?"
        )
    with cluster.admin(COMMIT_S) as admin:
        now = admin.committed(group, wanted)
        ahead = {place: now[place] for place, offset in wanted.items() if now.get(place, -1) > offset}
        to_set = {place: offset for place, offset in wanted.items() if place not in ahead}
        if dry_run:
            return f"would be put at {_positions_text(to_set)}{_already_ahead(ahead)}"
        admin.commit(group, to_set)
        then = admin.committed(group, to_set)
    wrong = {place: then.get(place, -1) for place, offset in to_set.items() if then.get(place) != offset}
    if wrong:
        raise LabError(f"{group} is at {_positions_text(wrong)} in {target.name}, not where it was set")
    return f"is at {_positions_text(to_set)}{_already_ahead(ahead)}, as {target.name} says"


def _positions_text(positions: Mapping[TopicPartition, int]) -> str:
    return ", ".join(f"{place} {offset:,}" for place, offset in sorted(positions.items())) or "nothing new"


def _already_ahead(ahead: Mapping[TopicPartition, int]) -> str:
    return f"; further already: {_positions_text(ahead)}" if ahead else ""
