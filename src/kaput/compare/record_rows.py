"""Compares the records and the logs of a topic: a row for each aspect, from its partitions' totals. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from kaput.compare.answer import BY_DESIGN, IDENTICAL, LOST, AspectRow, ComparedPartition
from kaput.compare.description import TopicDescription
from kaput.compare.matching import change_name
from kaput.compare.records import PairTotals
from kaput.core import plural
from kaput.evidence.comparisons import Status

_EXAMPLES = 5
_SIDES = ("source", "target")


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
        return f"topic {self.source.name}"

    def sums(self, count: Callable[[PairTotals], int]) -> dict[int, int]:
        """A count by partition, without zeros."""
        every = {number: count(totals) for number, totals in self.partitions.items()}
        return {number: value for number, value in every.items() if value}

    def examples(self, *kinds: str) -> list[dict[str, Any]]:
        examples = [
            {"partition": number, **_example(each)}
            for number, totals in sorted(self.partitions.items())
            for kind in kinds
            for each in totals.examples.get(kind, ())
        ]
        return examples[:_EXAMPLES]

    def facts(self, name: str) -> dict[str, int]:
        """The sums of one of PartitionFacts' counts, of `source` and `target`."""
        every = self.partitions.values()
        return {side: sum(getattr(getattr(each, side), name) for each in every) for side in _SIDES}

    def counters(self, name: str) -> dict[str, Counter[Any]]:
        """The same of a count by codec, or by leader epoch."""
        sums: dict[str, Counter[Any]] = {side: Counter() for side in _SIDES}
        for side, totals in product(_SIDES, self.partitions.values()):
            sums[side].update(getattr(getattr(totals, side), name))
        return sums

    def of_matched(self, name: str) -> int:
        """The sum of one of the counts of matched records (positions.py)."""
        return sum(totals.of_matched(name) for totals in self.partitions.values())

    def row(
        self,
        aspect: str,
        status: Status,
        meaning: str,
        reason: str = "",
        counts: Mapping[str, Any] | None = None,
        examples: Sequence[Mapping[str, Any]] = (),
    ) -> AspectRow:
        return AspectRow(self.what, aspect, status, meaning, reason, counts or {}, examples)

    def counted(
        self,
        aspect: str,
        status: Status,
        meaning: str,
        count: Callable[[PairTotals], int],
        kinds: Sequence[str],
        reason: str = "",
        **more: Any,
    ) -> AspectRow:
        """A row with a count by partition, and examples of these kinds."""
        by_partition = self.sums(count)
        counts = {"count": sum(by_partition.values()), **more}
        partitions = {number: {"count": value} for number, value in by_partition.items()}
        row = self.row(aspect, status, meaning, reason, counts, self.examples(*kinds))
        return replace(row, partitions=partitions)

    def left(self, kind: str) -> int:
        """The number of unmatched records of a kind (records.py)."""
        return sum(totals.left_of(kind) for totals in self.partitions.values())

    def left_row(
        self, kind: str, aspect: str, status: Status, meaning: str, reason: str = "", **more: Any
    ) -> AspectRow:
        return self.counted(
            aspect, status, meaning, lambda totals: totals.left_of(kind), [kind], reason, **more
        )

    def changed_row(
        self, name: str, aspect: str, status: Status, meanings: tuple[str, str], reason: str = ""
    ) -> AspectRow:
        """A row with one of the counts of matched records. `meanings`: of none (identical), and of some."""
        if not self.of_matched(name):
            return self.row(aspect, IDENTICAL, meanings[0])
        return self.counted(
            aspect, status, meanings[1], lambda totals: totals.of_matched(name), [name], reason
        )


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


_MEANINGS = {
    "keys": "Records have a different key in the target: there they belong to a different entity.",
    "values": "Consumers of the target get different contents from consumers of the source.",
    "headers": "Headers (types, tracing, routing) are not what producers sent.",
    "timestamps": "Windows, retention and offsets by timestamp differ in the target.",
}


def record_rows(topic: TopicTotals) -> list[AspectRow]:
    by_target = topic.target.config.get("message.timestamp.type") == "LogAppendTime"
    reasons = {"timestamps": "the target's message.timestamp.type is LogAppendTime"} if by_target else {}
    same = "All matched records have the same {}."
    return [
        *_missing(topic),
        *_surplus(topic),
        *(
            topic.changed_row(
                change_name(aspect), aspect, LOST, (same.format(aspect), meaning), reasons.get(aspect, "")
            )
            for aspect, meaning in _MEANINGS.items()
        ),
        topic.changed_row(
            change_name("timestamp types"),
            "timestamp types",
            BY_DESIGN,
            (
                "Timestamps have the same type as in the source.",
                "Clients that ask for a record's timestamp type get another answer.",
            ),
            "a mirror writes timestamps as a producer does: CreateTime",
        ),
        topic.changed_row(
            "reordered",
            "order",
            LOST,
            (
                "Within each partition records are in the source's order.",
                "Consumers of the target get these after records that came later in the source: the last "
                "record of a key may differ.",
            ),
        ),
    ]


def compared_partitions(topic: TopicTotals) -> list[ComparedPartition]:
    return [_compared(topic, number, totals) for number, totals in sorted(topic.partitions.items())]


def _compared(topic: TopicTotals, number: int, totals: PairTotals) -> ComparedPartition:
    behind, newer = totals.left_of("behind"), totals.left_of("newer")
    last_source, last_target = totals.matched.get("last_source"), totals.matched.get("last_target")
    source, target = totals.source, totals.target
    return ComparedPartition(
        topic.source.name,
        topic.target.name,
        number,
        source.start,
        source.end,
        source.end if not behind or last_source is None else last_source + 1,
        target.start,
        target.end,
        target.end if not newer or last_target is None else last_target + 1,
        source.records,
        target.records,
        totals.of_matched("matched"),
        behind,
    )


def _missing(topic: TopicTotals) -> Iterable[AspectRow]:
    more: dict[str, Any] = {**topic.facts("records"), "matched": topic.of_matched("matched")}
    if lost := topic.left("missing"):
        seconds = _seconds(topic, "missing")
        meaning = (
            f"{plural(lost, 'record')} of the source {'is' if lost == 1 else 'are'} not in the target, over "
            f"{seconds} s: after a failover nobody can read them."
        )
        yield topic.left_row("missing", "records", LOST, meaning, **more, seconds=seconds)
    else:
        meaning = "Every record of the source, up to where both were compared, is in the target."
        yield topic.row("records", IDENTICAL, meaning, counts={"count": 0, **more})
    if behind := topic.left("behind"):
        seconds = _seconds(topic, "behind")
        meaning = (
            f"If the source were lost now, its last {plural(behind, 'record')} (over {seconds} s) would "
            "be lost too."
        )
        status, reason = LOST, "the mirror did not reach them in the time allowed"
        if not topic.waited:
            reason = "mirroring is asynchronous: it had not reached them yet; --wait gives it time"
            status = BY_DESIGN
        yield topic.left_row("behind", "lag", status, meaning, reason, seconds=seconds)
    if topic.left("expired"):
        meaning = "Readers that begin at the start find less in the target."
        reason = "each cluster removes old records by itself: the target's log begins later"
        yield topic.left_row("expired", "retention in the target", BY_DESIGN, meaning, reason)


def _surplus(topic: TopicTotals) -> Iterable[AspectRow]:
    if copies := topic.left("copy"):
        meaning = f"Readers of the target get {plural(copies, 'record')} twice or more."
        reason = "a mirror without exactly-once stores records again after a restart"
        yield topic.left_row("copy", "duplicates", BY_DESIGN, meaning, reason)
    else:
        meaning = "No record is stored more often in the target than in the source."
        yield topic.row("duplicates", IDENTICAL, meaning)

    def foreign(totals: PairTotals) -> int:
        # If the source had no new records, later records of the target cannot be from it.
        newer = totals.left_of("newer") if totals.pair in topic.quiet else 0
        return totals.left_of("foreign") + newer

    if count := sum(topic.sums(foreign).values()):
        meaning = (
            f"{plural(count, 'record')} of the target {'is' if count == 1 else 'are'} not in the source: "
            "somebody else writes to the mirror, and its readers get more than the source's."
        )
        yield topic.counted("foreign records", LOST, meaning, foreign, ["foreign", "newer"])
    if topic.left("older"):
        meaning = "Readers that begin at the start find more in the target."
        reason = "each cluster removes old records by itself: the source's log begins later"
        yield topic.left_row("older", "retention in the source", BY_DESIGN, meaning, reason)


def _seconds(topic: TopicTotals, kind: str) -> float:
    """The time between the first and the last of this kind, by their timestamps."""
    spans = [
        (totals.left_of(kind, "first_ms"), totals.left_of(kind, "last_ms"))
        for totals in topic.partitions.values()
        if totals.left_of(kind)
    ]
    if not spans:
        return 0.0
    return round((max(last for _, last in spans) - min(first for first, _ in spans)) / 1000, 3)


def log_rows(topic: TopicTotals) -> list[AspectRow]:
    return [
        _offsets(topic),
        *_offset_syncs(topic),
        _gaps(topic),
        _compression(topic),
        *_transactions(topic),
        _tombstones(topic),
        *_compaction(topic),
        _leader_epochs(topic),
    ]


def _offsets(topic: TopicTotals) -> AspectRow:
    def other(totals: PairTotals) -> int:
        return totals.of_matched("matched") - totals.of_matched("same_offset")

    every = [totals.matched for totals in topic.partitions.values() if totals.matched]
    shifts = {
        "least_shift": min((row["least_shift"] for row in every), default=0),
        "greatest_shift": max((row["greatest_shift"] for row in every), default=0),
    }
    if not topic.sums(other):
        return topic.row("offsets", IDENTICAL, "Offsets mean the same in both clusters.", counts=shifts)
    meaning = (
        f"A position in the source refers to a different record in the target (by {shifts['least_shift']:,} "
        f"to {shifts['greatest_shift']:,}): it must be translated."
    )
    reason = "the target numbers records itself"
    return topic.counted("offsets", BY_DESIGN, meaning, other, [], reason, **shifts)


def _offset_syncs(topic: TopicTotals) -> Iterable[AspectRow]:
    checked = sum(totals.claims.get("checked", 0) for totals in topic.partitions.values())
    right = sum(totals.claims.get("right", 0) for totals in topic.partitions.values())
    if not checked:
        return
    counts = {"count": checked - right, "checked": checked}
    if checked == right:
        meaning = "Each offset sync of the mirror names the same record on both sides."
        yield topic.row("offset syncs", IDENTICAL, meaning, counts=counts)
        return
    meaning = (
        "The mirror translates positions by pairs of offsets that are not the same record: groups would "
        "skip or repeat."
    )
    yield topic.row("offset syncs", LOST, meaning, counts=counts, examples=topic.examples("claims"))


def _gaps(topic: TopicTotals) -> AspectRow:
    counts = topic.facts("gap_offsets")
    if counts["source"] == counts["target"]:
        meaning = "Both sides have the same number of empty offsets."
        return topic.row("gaps", IDENTICAL, meaning, counts=counts)
    meaning = "Counts based on offsets (lag, progress) differ; no record is missing because of it."
    reason = "offsets that compaction emptied are not mirrored: the target numbers records without gaps"
    return topic.row("gaps", BY_DESIGN, meaning, reason, counts)


def _compression(topic: TopicTotals) -> AspectRow:
    codecs = topic.counters("codecs")
    counts = {f"{side} {name}": n for side, each in codecs.items() for name, n in each.items()}
    if set(codecs["source"]) == set(codecs["target"]) or not codecs["target"]:
        return topic.row("compression", IDENTICAL, "Records are stored with the same codecs.", counts=counts)
    meaning = "The target needs a different amount of disk and network from the source."
    reason = "the mirror's producer compresses by its own setting"
    return topic.row("compression", BY_DESIGN, meaning, reason, counts)


def _transactions(topic: TopicTotals) -> Iterable[AspectRow]:
    counts = topic.facts("transactional")
    source, target = counts["source"], counts["target"]
    for name in ("aborted", "markers"):
        counts |= {f"{side}_{name}": count for side, count in topic.facts(name).items()}
    exposed = sum(totals.exposed for totals in topic.partitions.values())
    if exposed:
        meaning = (
            f"{plural(exposed, 'record')} of aborted transactions can be read in the target: "
            "consumers get records that their producer aborted."
        )
        reason = "the mirror reads uncommitted records (consumer isolation.level of its source)"
        yield topic.counted("aborted records", LOST, meaning, lambda each: each.exposed, [], reason)
    if source and not target:
        meaning = "A transaction that was half mirrored when the source was lost is visible in half."
        reason = "records are mirrored, transactions and their markers are not"
        yield topic.row("transactions", BY_DESIGN, meaning, reason, counts)
    elif source != target:
        meaning = "read_committed consumers wait for different transactions than in the source."
        reason = "the mirror writes in transactions of its own"
        yield topic.row("transactions", BY_DESIGN, meaning, reason, counts)
    else:
        meaning = (
            "Neither side has transactions."
            if not source
            else "Both sides have the same number of records in transactions."
        )
        yield topic.row("transactions", IDENTICAL, meaning, counts=counts)


def _tombstones(topic: TopicTotals) -> AspectRow:
    counts = topic.facts("tombstones")
    missing = sum(topic.sums(lambda totals: totals.left_of("missing", "tombstones")).values())
    if missing:
        meaning = (
            f"{plural(missing, 'deletion')} of keys did not reach the target: keys deleted in the source "
            "still exist there."
        )
        return topic.row("tombstones", LOST, meaning, counts={**counts, "count": missing})
    meaning = "Every deletion of a key is in the target, as far as both were compared."
    if not any(counts.values()):
        meaning = "No key was deleted."
    return topic.row("tombstones", IDENTICAL, meaning, counts=counts)


def _compaction(topic: TopicTotals) -> Iterable[AspectRow]:
    if not (topic.source.compacted or topic.target.compacted):
        return
    names = ("keys", "same", "deleted", "other", "only_source", "only_target")
    every = [totals.keys for totals in topic.partitions.values() if totals.keys]
    counts = {name: sum(int(keys.get(name) or 0) for keys in every) for name in names}
    superseded = sum(topic.sums(lambda totals: totals.left_of("superseded")).values())
    wrong = counts["other"] + counts["only_source"] + counts["only_target"]
    counts["superseded"] = superseded
    if wrong:
        meaning = (
            f"The latest value of {plural(wrong, 'key')} differs in the target, or exists on one side only."
        )
        yield topic.row("compaction", LOST, meaning, counts=counts, examples=topic.examples("keys"))
    elif superseded:
        meaning, examples = (
            "Each key has the same latest value; older ones differ.",
            topic.examples("superseded"),
        )
        yield topic.row("compaction", BY_DESIGN, meaning, "each cluster compacts by itself", counts, examples)
    else:
        yield topic.row("compaction", IDENTICAL, "Each key has the same latest value.", counts=counts)


def _leader_epochs(topic: TopicTotals) -> AspectRow:
    epochs = topic.counters("epochs")
    source, target = epochs["source"], epochs["target"]
    counts: dict[str, Any] = {}
    for side, each in epochs.items():
        counts |= {f"{side}_epochs": len(each), f"{side}_last": max(each, default=None)}
    if set(source) == set(target) or not source or not target:
        return topic.row("leader epochs", IDENTICAL, "Leaders changed equally often.", counts=counts)
    meaning = "Clients that carry an epoch with a position must drop it when they move."
    return topic.row("leader epochs", BY_DESIGN, meaning, "each cluster elects its own leaders", counts)
