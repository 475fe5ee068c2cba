"""Compares the logs: offsets, gaps, compression, transactions, compaction, leader epochs. Pure: totals in,
rows out. Not here: the records themselves (record_rows.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from kaput.compare.answer import BY_DESIGN, IDENTICAL, LOST, Row
from kaput.compare.records import PairTotals
from kaput.compare.topic_totals import TopicTotals, counted
from kaput.core import plural


def rows(topic: TopicTotals) -> list[Row]:
    """The rows for all aspects of a topic's logs."""
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


def _offsets(topic: TopicTotals) -> Row:
    def other(totals: PairTotals) -> int:
        return int(totals.matched.get("matched") or 0) - int(totals.matched.get("same_offset") or 0)

    every = [totals.matched for totals in topic.partitions.values() if totals.matched]
    shifts = {
        "least_shift": min((row["least_shift"] for row in every), default=0),
        "greatest_shift": max((row["greatest_shift"] for row in every), default=0),
    }
    if not topic.sums(other):
        return Row(topic.what, "offsets", IDENTICAL, "Offsets mean the same in both clusters.", counts=shifts)
    return counted(
        topic,
        "offsets",
        BY_DESIGN,
        f"A position in the source refers to a different record in the target (by {shifts['least_shift']:,} "
        f"to {shifts['greatest_shift']:,}): it must be translated.",
        other,
        [],
        "the target numbers records itself",
        **shifts,
    )


def _offset_syncs(topic: TopicTotals) -> Iterable[Row]:
    checked = sum(totals.claims.get("checked", 0) for totals in topic.partitions.values())
    right = sum(totals.claims.get("right", 0) for totals in topic.partitions.values())
    if not checked:
        return
    counts = {"count": checked - right, "checked": checked}
    if checked == right:
        meaning = "Each offset sync of the mirror names the same record on both sides."
        yield Row(topic.what, "offset syncs", IDENTICAL, meaning, counts=counts)
        return
    meaning = (
        "The mirror translates positions by pairs of offsets that are not the same record: groups would "
        "skip or repeat."
    )
    yield Row(topic.what, "offset syncs", LOST, meaning, counts=counts, examples=topic.examples("claims"))


def _gaps(topic: TopicTotals) -> Row:
    source, target = topic.facts(lambda facts: facts.gap_offsets)
    counts = {"source": source, "target": target}
    if source == target:
        return Row(
            topic.what, "gaps", IDENTICAL, "Both sides have the same number of empty offsets.", counts=counts
        )
    meaning = "Counts based on offsets (lag, progress) differ; no record is missing because of it."
    reason = "offsets that compaction emptied are not mirrored: the target numbers records without gaps"
    return Row(topic.what, "gaps", BY_DESIGN, meaning, reason, counts)


def _compression(topic: TopicTotals) -> Row:
    source, target = (_sum_counters(facts) for facts in _codecs(topic))
    counts = {f"source {name}": n for name, n in source.items()} | {
        f"target {name}": n for name, n in target.items()
    }
    if set(source) == set(target) or not target:
        return Row(
            topic.what, "compression", IDENTICAL, "Records are stored with the same codecs.", counts=counts
        )
    meaning = "The target needs a different amount of disk and network from the source."
    reason = "the mirror's producer compresses by its own setting"
    return Row(topic.what, "compression", BY_DESIGN, meaning, reason, counts)


def _codecs(topic: TopicTotals) -> tuple[list[Counter[str]], list[Counter[str]]]:
    every = topic.partitions.values()
    return [totals.source.codecs for totals in every], [totals.target.codecs for totals in every]


def _sum_counters(counters: Iterable[Counter[Any]]) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for each in counters:
        found.update(each)
    return found


def _transactions(topic: TopicTotals) -> Iterable[Row]:
    source, target = topic.facts(lambda facts: facts.transactional)
    aborted, aborted_target = topic.facts(lambda facts: facts.aborted)
    markers = topic.facts(lambda facts: facts.commit_markers + facts.abort_markers)
    counts = {
        "source": source,
        "target": target,
        "source_aborted": aborted,
        "target_aborted": aborted_target,
        "source_markers": markers[0],
        "target_markers": markers[1],
    }
    exposed = sum(totals.exposed for totals in topic.partitions.values())
    if exposed:
        yield counted(
            topic,
            "aborted records",
            LOST,
            f"{plural(exposed, 'record')} of aborted transactions can be read in the target: "
            "consumers get records that their producer aborted.",
            lambda totals: totals.exposed,
            [],
            "the mirror reads uncommitted records (consumer isolation.level of its source)",
        )
    if source and not target:
        yield Row(
            topic.what,
            "transactions",
            BY_DESIGN,
            "A transaction that was half mirrored when the source was lost is visible in half.",
            "records are mirrored, transactions and their markers are not",
            counts,
        )
    elif source != target:
        meaning = "read_committed consumers wait for different transactions than in the source."
        reason = "the mirror writes in transactions of its own"
        yield Row(topic.what, "transactions", BY_DESIGN, meaning, reason, counts)
    else:
        meaning = (
            "Neither side has transactions."
            if not source
            else "Both sides have the same number of records in transactions."
        )
        yield Row(topic.what, "transactions", IDENTICAL, meaning, counts=counts)


def _tombstones(topic: TopicTotals) -> Row:
    source, target = topic.facts(lambda facts: facts.tombstones)
    counts = {"source": source, "target": target}
    missing = sum(topic.sums(lambda totals: totals.left_of("missing", "tombstones")).values())
    if missing:
        meaning = (
            f"{plural(missing, 'deletion')} of keys did not reach the target: keys deleted in the source "
            "still exist there."
        )
        return Row(topic.what, "tombstones", LOST, meaning, counts={**counts, "count": missing})
    meaning = "Every deletion of a key is in the target, as far as both were compared."
    if not source and not target:
        meaning = "No key was deleted."
    return Row(topic.what, "tombstones", IDENTICAL, meaning, counts=counts)


def _compaction(topic: TopicTotals) -> Iterable[Row]:
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
        yield Row(topic.what, "compaction", LOST, meaning, counts=counts, examples=topic.examples("keys"))
    elif superseded:
        yield Row(
            topic.what,
            "compaction",
            BY_DESIGN,
            "Each key has the same latest value; older ones differ.",
            "each cluster compacts by itself",
            counts,
            topic.examples("superseded"),
        )
    else:
        yield Row(topic.what, "compaction", IDENTICAL, "Each key has the same latest value.", counts=counts)


def _leader_epochs(topic: TopicTotals) -> Row:
    source = _sum_counters(totals.source.epochs for totals in topic.partitions.values())
    target = _sum_counters(totals.target.epochs for totals in topic.partitions.values())
    counts = {
        "source_epochs": len(source),
        "source_last": max(source, default=None),
        "target_epochs": len(target),
        "target_last": max(target, default=None),
    }
    if set(source) == set(target) or not source or not target:
        return Row(topic.what, "leader epochs", IDENTICAL, "Leaders changed equally often.", counts=counts)
    meaning = "Clients that carry an epoch with a position must drop it when they move."
    return Row(topic.what, "leader epochs", BY_DESIGN, meaning, "each cluster elects its own leaders", counts)
