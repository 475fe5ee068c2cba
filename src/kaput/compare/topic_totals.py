"""The totals of a topic's partitions, summed up for rows. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kaput.compare.answer import Row
from kaput.compare.description import TopicDescription
from kaput.compare.reading import PartitionFacts
from kaput.compare.records import PairTotals
from kaput.evidence.comparisons import Status

_EXAMPLES = 5


@dataclass(frozen=True)
class TopicTotals:
    """A topic, its mirror, and the totals by partition. `waited`: whether the mirror had time to catch
    up; `quiet`: partitions without new source records while the target was read.
    """

    source: TopicDescription
    target: TopicDescription
    partitions: Mapping[int, PairTotals]
    waited: bool = False
    quiet: frozenset[int] = frozenset()

    @property
    def what(self) -> str:
        """The topic's name in rows."""
        return f"topic {self.source.name}"

    def sums(self, count: Callable[[PairTotals], int]) -> dict[int, int]:
        """A count by partition, without zeros."""
        every = {number: count(totals) for number, totals in self.partitions.items()}
        return {number: value for number, value in every.items() if value}

    def examples(self, *kinds: str) -> list[dict[str, Any]]:
        """The first examples of these kinds."""
        found = [
            {"partition": number, **_example(each)}
            for number, totals in sorted(self.partitions.items())
            for kind in kinds
            for each in totals.examples.get(kind, ())
        ]
        return found[:_EXAMPLES]

    def facts(self, count: Callable[[PartitionFacts], int]) -> tuple[int, int]:
        """The sums of a count over the partitions: (source, target)."""
        every = self.partitions.values()
        return sum(count(totals.source) for totals in every), sum(count(totals.target) for totals in every)

    @property
    def matched(self) -> int:
        """The number of source records that are in the target, changed or not."""
        return sum(int(totals.matched.get("matched") or 0) for totals in self.partitions.values())


def _example(row: Mapping[str, Any]) -> dict[str, Any]:
    names = {
        "source": "source_offset",
        "target": "target_offset",
        "source_timestamp": "source_timestamp_ms",
        "target_timestamp": "target_timestamp_ms",
        "offset": "offset",
        "timestamp": "timestamp_ms",
        "exact_source": "source_offset",
        "exact_target": "claimed_offset",
        "truth": "target_offset",
        "source_offset": "source_offset",
        "target_offset": "target_offset",
    }
    shown = {names[name]: value for name, value in row.items() if name in names and value is not None}
    if "side" in row:
        shown["in"] = "target" if row["side"] else "source"
    return shown


def counted(
    topic: TopicTotals,
    aspect: str,
    status: Status,
    meaning: str,
    count: Callable[[PairTotals], int],
    kinds: Sequence[str],
    reason: str = "",
    **more: Any,
) -> Row:
    by_partition = topic.sums(count)
    return Row(
        topic.what,
        aspect,
        status,
        meaning,
        reason,
        {"count": sum(by_partition.values()), **more},
        topic.examples(*kinds),
        {number: {"count": value} for number, value in by_partition.items()},
    )
