"""The group_events table, read on the driver: who was assigned what, who left, what was committed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kaput.analysis.dense.readers import Reader
from kaput.analysis.inputs import Inputs
from kaput.analysis.names import KIND

CHANGES = {KIND["assigned"], KIND["revoked"], KIND["lost"]}
Key = tuple[int, int]


@dataclass(frozen=True)
class GroupEvents:
    """See Context and Counted for each; `kinds`: numbers of the kinds of events that a group has."""

    assigned: Mapping[Reader, Sequence[tuple[int, bool]]]
    given_up: Mapping[Key, Sequence[tuple[int, int | None]]]
    gone: Mapping[Key, Sequence[int]]
    commits: Mapping[Key, Sequence[tuple[int, int, int]]]
    first_positions: Mapping[Key, int]
    kinds: Mapping[int, frozenset[int]]


def read_groups(given: Inputs) -> GroupEvents:
    """The whole table. Raises EvidenceError."""
    names = given.names
    groups = {name: number for number, name in enumerate(names.groups)}
    members = {name: number for number, name in enumerate(names.members)}
    topics = {name: number for number, name in enumerate(names.topics)}
    assigned: dict[Reader, list[tuple[int, bool]]] = defaultdict(list)
    given_up: dict[Key, list[tuple[int, int | None]]] = defaultdict(list)
    gone: dict[Key, list[int]] = defaultdict(list)
    commits: dict[Key, list[tuple[int, int, int]]] = defaultdict(list)
    began: dict[Key, tuple[int, int]] = {}
    kinds: dict[int, set[int]] = defaultdict(set)
    for event in given.evidence.rows("group_events"):
        group, member, kind = groups[event["group"]], members[event["member"]], event["kind"]
        kinds[group].add(KIND[kind])
        at_ns, offset = event["at_ns"], event["offset"]
        if kind in ("left", "killed"):
            gone[group, member].append(at_ns)
        place = _place(given, event)
        if place is None:
            if kind in ("revoked", "lost"):
                given_up[group, member].append((at_ns, topics.get(event["topic"])))
            continue
        if KIND[kind] in CHANGES:
            assigned[group, member, place].append((at_ns, kind == "assigned"))
        if kind == "assigned" and offset is not None:
            began[group, place] = min(began.get((group, place), (at_ns, offset)), (at_ns, offset))
        if kind == "committed" and offset is not None:
            commits[group, place].append((offset, at_ns, member))
    return GroupEvents(
        dict(assigned),
        dict(given_up),
        dict(gone),
        {key: sorted(rows) for key, rows in commits.items()},
        {key: offset for key, (_, offset) in began.items()},
        {group: frozenset(found) for group, found in kinds.items()},
    )


def _place(given: Inputs, event: Mapping[str, Any]) -> int | None:
    if event["topic"] is None or event["partition"] is None or event["partition"] < 0:
        return None
    return given.names.code((event["topic"], event["partition"]))
