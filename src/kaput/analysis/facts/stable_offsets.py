"""Finds last stable offsets that stalled, from the samples, and defines how long one may.

From the samples table, on the driver. Not here: judging them (questions/transactions.py).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kaput.analysis.facts.outages import Outages
from kaput.core import TopicPartition
from kaput.evidence.samples import STABLE, WATERMARK
from kaput.scenario.vocabulary import KAFKAS_TIMEOUT_MS


class StalledOffset(NamedTuple):
    """A last stable offset that did not move from one sample to another (ns)."""

    place: TopicPartition
    offset: int
    from_ns: int
    to_ns: int

    @property
    def ns(self) -> int:
        """The duration."""
        return self.to_ns - self.from_ns


def find(samples: Iterable[Mapping[str, Any]]) -> list[StalledOffset]:
    """All stalls longer than 0, by place and time.

    A sample whose high watermark is not above the offset does not end a stall: the watermark dips under a new
    leader, and the last stable offset is never above it.
    """
    found: list[StalledOffset] = []
    for place, (stable, watermark) in sorted(_by_place(samples).items()):
        current: StalledOffset | None = None
        for at_ns in sorted(stable.keys() & watermark.keys()):
            if current is not None and watermark[at_ns] <= current.offset:
                continue
            if current is None or stable[at_ns] != current.offset:
                held = stable[at_ns] < watermark[at_ns]
                current = StalledOffset(place, stable[at_ns], at_ns, at_ns) if held else None
                continue
            if current.ns:
                found.pop()
            current = current._replace(to_ns=at_ns)
            found.append(current)
    return found


def longest(found: Iterable[StalledOffset]) -> list[StalledOffset]:
    """The longest stall at each offset. There may be several, if a deposed leader answered in between."""
    by_offset: dict[tuple[TopicPartition, int], StalledOffset] = {}
    for one in sorted(found, key=lambda one: one.ns):
        by_offset[one.place, one.offset] = one
    return list(by_offset.values())


def _by_place(
    samples: Iterable[Mapping[str, Any]],
) -> Mapping[TopicPartition, tuple[dict[int, int], dict[int, int]]]:
    """By partition: last stable offset by time, and high watermark by time."""
    found: defaultdict[TopicPartition, tuple[dict[int, int], dict[int, int]]] = defaultdict(lambda: ({}, {}))
    for row in samples:
        place = _place(dict(row["labels"] or ())) if row["name"] in (STABLE, WATERMARK) else None
        if place is not None:
            found[place][row["name"] == WATERMARK][row["at_ns"]] = round(row["value"])
    return found


def _place(labels: Mapping[str, str | None]) -> TopicPartition | None:
    """The partition in a sample's labels, if any."""
    topic, partition = labels.get("topic"), labels.get("partition") or ""
    known = topic is not None and re.fullmatch("[0-9]{1,9}", partition)
    return TopicPartition(topic, int(partition)) if topic is not None and known else None


@dataclass(frozen=True)
class Limits:
    """How long a transaction may stay open (ns), and when its coordinator was down."""

    timeout_ns: int = KAFKAS_TIMEOUT_MS * 1_000_000
    outages: Outages = field(default_factory=Outages)
