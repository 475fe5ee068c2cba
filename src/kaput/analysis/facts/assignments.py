"""What groups did, as frames; and which assignments change what a member has: one of a partition that it has
already does not.

Clients tell of it again, for example at each rebalance. Such a row has the kind REPEATED in the frames: it
may still tell a position. Not here: what changes of owner amount to (rebalances.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from kaput.analysis.runs.names import EVENTS, Names
from kaput.core import TopicPartition

REPEATED = "repeated"
TAKEN = ("revoked", "lost", "left", "killed")
Event = Mapping[str, Any]  # a row of group_events


def events_frame(names: Names, events: Iterable[Event]) -> pl.DataFrame:
    """The group_events table with numbers for names (EVENTS), and REPEATED assignments."""
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
    """The rows, in the order of time; of one moment, what is taken away comes before what is assigned."""
    had: defaultdict[tuple[str, str], set[TopicPartition]] = defaultdict(set)
    found = []
    for event in sorted(events, key=lambda event: (event["at_ns"], event["kind"] == "assigned")):
        mine, place, kind = had[event["group"], event["member"]], place_of(event), event["kind"]
        if kind == "assigned" and place is not None:
            kind = REPEATED if place in mine else kind
            mine.add(place)
        elif kind in TAKEN:
            mine -= {one for one in mine if concerns(event, one)}
        found.append({**event, "kind": kind})
    return found


def place_of(event: Event) -> TopicPartition | None:
    """The partition that it names."""
    topic, partition = event["topic"], event["partition"]
    return None if topic is None or partition is None else TopicPartition(topic, partition)


def position_of(event: Event) -> int | None:
    """The offset that it tells; Kafka's own word for none is -1."""
    offset: int | None = event["offset"]
    return None if offset is None or offset < 0 else offset


def concerns(event: Event, place: TopicPartition) -> bool:
    """Whether what is taken away is this partition: the one that is named, or all (of the topic)."""
    if event["kind"] in ("left", "killed") or event["topic"] is None:
        return True
    return bool(event["topic"] == place[0]) and event["partition"] in (None, place[1])
