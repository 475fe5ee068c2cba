"""The leader and ISR of each partition before, during and after the faults, from the cluster's own events.

Built on the driver. Not here: what the changes cost (leader_changes.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from kaput.analysis.engine.question import Question, Reported, findings
from kaput.analysis.facts.inputs import Inputs
from kaput.analysis.facts.leader_history import Change, LeaderHistory
from kaput.analysis.facts.serving import Serving
from kaput.core import MS, TopicPartition, cluster_and_topic
from kaput.evidence.findings_parts import PartitionSnapshot, PartitionTable, When
from kaput.scenario.vocabulary import NOOP

if TYPE_CHECKING:
    from kaput.analysis.run import Run


class PartitionTables(Question):
    """Reports the partition tables, from the cluster's own events only."""

    def report(self, run: Run) -> Iterator[Reported]:
        """The partition tables."""
        yield findings(partition_tables=partition_tables(run.given, run.leader_history, run.record.serving))


def partition_tables(given: Inputs, history: LeaderHistory, serving: Serving) -> list[PartitionTable]:
    """A table for each of `_moments`; none without events of any partition."""
    if not history.changes:
        return []
    replicas = {place: _replicas(given, place, changes) for place, changes in history.changes.items()}
    return [
        PartitionTable(
            when=when,
            at_ns=at_ns,
            partitions=[
                _state(place, replicas[place], changes, at_ns, serving)
                for place, changes in history.changes.items()
            ],
        )
        for when, at_ns in _moments(given, history)
    ]


def _moments(given: Inputs, history: LeaderHistory) -> Iterator[tuple[When, int]]:
    """Just before the first fault, just before the last heal, and the end of the run."""
    last_ns = max(change.at_ns for changes in history.changes.values() for change in changes)
    end_ns = last_ns + 1 if given.manifest.ended_ns is None else given.manifest.ended_ns
    faults = [fault for fault in given.faults if fault.fault != NOOP]
    if faults:
        yield "before", min(_begin_ns(fault.injected_ns, fault.effective_ns) for fault in faults)
        yield "during", max(fault.healed_ns or end_ns for fault in faults)
    yield "after", end_ns


def _begin_ns(injected_ns: int, effective_ns: int | None) -> int:
    return injected_ns if effective_ns is None else min(injected_ns, effective_ns)


def _state(
    place: TopicPartition, replicas: Sequence[int], changes: Sequence[Change], at_ns: int, serving: Serving
) -> PartitionSnapshot:
    """The state of the partition just before `at_ns`."""
    known: dict[str, int | list[int] | None] = {"leader": None, "leader_epoch": None, "isr": None}
    for change in changes:
        if change.at_ns // MS >= at_ns // MS:
            break
        new: Mapping[str, int | list[int] | None] = {
            "leader": change.leader,
            "leader_epoch": change.epoch,
            "isr": None if change.isr is None else list(change.isr),
        }
        known |= {name: value for name, value in new.items() if value is not None}
    leader = known["leader"]
    down = isinstance(leader, int) and serving.down(leader, at_ns - 1, cluster_and_topic(place.topic)[0])
    about = {"topic": place[0], "partition": place[1], "replicas": list(replicas), "leader_down": down}
    return PartitionSnapshot.model_validate({**about, **known})


def _replicas(given: Inputs, place: TopicPartition, changes: Sequence[Change]) -> list[int]:
    """The replicas assigned by the scenario, else every broker that was ever in the ISR."""
    topic = given.scenario.topic(place[0]) if given.scenario else None
    if topic is not None and topic.assignment and place[1] < len(topic.assignment):
        return list(topic.assignment[place[1]])
    return list(dict.fromkeys(broker for change in changes for broker in change.isr or ()))
