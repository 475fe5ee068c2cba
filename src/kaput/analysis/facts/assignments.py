"""Builds the frame of group events, and marks assignments that change nothing as REPEATED.

Clients report partitions that a member already has again, for example at each rebalance; such a row may still
name a position. Not here: finding rebalances (rebalances.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from kaput.analysis.runs.names import EVENTS, Names
from kaput.core import TopicPartition
from kaput.evidence.reading import Evidence, distinct
from kaput.evidence.schemas import SEEK

REPEATED = "repeated"
REMOVAL_KINDS = ("revoked", "lost", "left", "killed")
Event = Mapping[str, Any]  # a row of group_events
Owners = Mapping[tuple[str, TopicPartition], Sequence[tuple[int, frozenset[str]]]]


def events_frame(names: Names, events: Iterable[Event]) -> pl.DataFrame:
    """The group_events table with numbers instead of names (EVENTS), and REPEATED assignments."""
    numbers = {
        column: {name: number for number, name in enumerate(words)}
        for column, words in (("group", names.groups), ("member", names.members), ("topic", names.topics))
    }
    rows = [
        {
            **row,
            **{column: known.get(row[column]) for column, known in numbers.items()},
            "place": _number(names, row),
            "offset": position_of(row),
        }
        for row in with_repeated(events)
    ]
    return pl.DataFrame([{name: row[name] for name in EVENTS} for row in rows], schema=EVENTS)


def _number(names: Names, event: Event) -> int | None:
    place = place_of(event)
    return None if place is None or place[1] < 0 else names.code(place)


def with_repeated(events: Iterable[Event]) -> list[dict[str, Any]]:
    """The rows by time, with kind REPEATED where nothing changes. At equal times, `assigned` comes last."""
    owned_by_member: defaultdict[tuple[str, str], set[TopicPartition]] = defaultdict(set)
    marked = []
    for event in sorted(events, key=lambda event: (event["at_ns"], event["kind"] == "assigned")):
        owned, place, kind = owned_by_member[event["group"], event["member"]], place_of(event), event["kind"]
        if kind == "assigned" and place is not None:
            kind = REPEATED if place in owned else kind
            owned.add(place)
        elif kind in REMOVAL_KINDS:
            owned -= {one for one in owned if concerns(event, one)}
        marked.append({**event, "kind": kind})
    return marked


def place_of(event: Event) -> TopicPartition | None:
    """The partition that the event names, if any."""
    topic, partition = event["topic"], event["partition"]
    return None if topic is None or partition is None else TopicPartition(topic, partition)


def position_of(event: Event) -> int | None:
    """The offset that the event names; None if it names none (Kafka's value for that is -1)."""
    offset: int | None = event["offset"]
    return None if offset is None or offset < 0 else offset


def concerns(event: Event, place: TopicPartition) -> bool:
    """Whether an event that takes partitions away takes this one: it names it, its topic, or nothing."""
    if event["kind"] in ("left", "killed") or event["topic"] is None:
        return True
    return bool(event["topic"] == place[0]) and event["partition"] in (None, place[1])


def owners(events: Iterable[Event], share_groups: Collection[str] = ()) -> Owners:
    """By group and partition: from when on which members owned it, by time; several only in share groups."""
    histories: dict[tuple[str, TopicPartition], list[tuple[int, frozenset[str]]]] = {}
    for event in with_repeated(events):
        place, group, at_ns, member = place_of(event), event["group"], event["at_ns"], event["member"]
        if event["kind"] == "assigned" and place is not None:
            history = histories.setdefault((group, place), [])
            before = history[-1][1] if history and group in share_groups else frozenset()
            history.append((at_ns, before | {member}))
        elif event["kind"] in REMOVAL_KINDS:
            for (of_group, one), history in histories.items():
                if of_group == group and concerns(event, one) and member in history[-1][1]:
                    history.append((at_ns, history[-1][1] - {member}))
    return histories


def after_aborts(evidence: Evidence, events: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows of group_events, for each transaction of a pipe that is not known to be committed, for members
    without recorded seeks. Whether the member went back before or after the abort was confirmed is unknown,
    so there is one row at its begin and one at its end. Raises EvidenceError.
    """
    outcomes, groups = evidence.words["transactions", "outcome"], evidence.words["outputs", "group"]
    if outcomes <= {"committed"} or not groups:
        return []
    recorded = {(event["group"], event["member"]) for event in events if event["kind"] == SEEK}
    ended = distinct(evidence, "transactions", ("producer", "outcome", "begin_ns", "end_ns"))
    pipe_members = distinct(evidence, "outputs", ("producer", "group", "member"))
    return [
        {"group": group, "member": member, "kind": SEEK, "at_ns": at_ns}
        | dict.fromkeys(("topic", "partition", "offset"))
        for producer, group, member in sorted(pipe_members)
        if (group, member) not in recorded
        for transaction_producer, outcome, *times in sorted(ended, key=lambda one: one[:3])
        if transaction_producer == producer and outcome != "committed"
        for at_ns in times
        if at_ns is not None
    ]
