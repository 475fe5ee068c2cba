"""Compares the records of a topic. Pure: totals of its partitions in, rows out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kaput.compare.answer import BY_DESIGN, IDENTICAL, LOST, ComparedPartition, Row
from kaput.compare.matching import change_name
from kaput.compare.records import PairTotals
from kaput.compare.topic_totals import TopicTotals, counted
from kaput.core import plural

_MEANINGS = {
    "keys": "Records have a different key in the target: there they belong to a different entity.",
    "values": "Consumers of the target get different contents from consumers of the source.",
    "headers": "Headers (types, tracing, routing) are not what producers sent.",
    "timestamps": "Windows, retention and offsets by timestamp differ in the target.",
}


def rows(topic: TopicTotals) -> list[Row]:
    """The rows for all aspects of a topic's records."""
    return [
        *_missing(topic),
        *_surplus(topic),
        *(_changed(topic, aspect) for aspect in _MEANINGS),
        _timestamp_types(topic),
        _order(topic),
    ]


def compared(topic: TopicTotals) -> list[ComparedPartition]:
    """The compared range of each partition."""
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
        int(totals.matched.get("matched") or 0),
        behind,
    )


def _missing(topic: TopicTotals) -> Iterable[Row]:
    missing = topic.sums(lambda totals: totals.left_of("missing"))
    lost = sum(missing.values())
    source, target = topic.facts(lambda facts: facts.records)
    more: dict[str, Any] = {"source": source, "target": target, "matched": topic.matched}
    if lost:
        seconds = _seconds(topic, "missing")
        yield counted(
            topic,
            "records",
            LOST,
            f"{plural(lost, 'record')} of the source {_is_or_are(lost)} not in the target, over {seconds} s: "
            "after a "
            "failover nobody can read them.",
            lambda totals: totals.left_of("missing"),
            ["missing"],
            **more,
            seconds=seconds,
        )
    else:
        meaning = "Every record of the source, up to where both were compared, is in the target."
        yield Row(topic.what, "records", IDENTICAL, meaning, counts={"count": 0, **more})
    if behind := sum(topic.sums(lambda totals: totals.left_of("behind")).values()):
        seconds = _seconds(topic, "behind")
        yield counted(
            topic,
            "lag",
            LOST if topic.waited else BY_DESIGN,
            f"If the source were lost now, its last {plural(behind, 'record')} (over {seconds} s) would "
            "be lost too.",
            lambda totals: totals.left_of("behind"),
            ["behind"],
            "the mirror did not reach them in the time allowed"
            if topic.waited
            else "mirroring is asynchronous: it had not reached them yet; --wait gives it time",
            seconds=seconds,
        )
    if topic.sums(lambda totals: totals.left_of("expired")):
        yield counted(
            topic,
            "retention in the target",
            BY_DESIGN,
            "Readers that begin at the start find less in the target.",
            lambda totals: totals.left_of("expired"),
            ["expired"],
            "each cluster removes old records by itself: the target's log begins later",
        )


def _surplus(topic: TopicTotals) -> Iterable[Row]:
    if copies := sum(topic.sums(lambda totals: totals.left_of("copy")).values()):
        yield counted(
            topic,
            "duplicates",
            BY_DESIGN,
            f"Readers of the target get {plural(copies, 'record')} twice or more.",
            lambda totals: totals.left_of("copy"),
            ["copy"],
            "a mirror without exactly-once stores records again after a restart",
        )
    else:
        yield Row(
            topic.what,
            "duplicates",
            IDENTICAL,
            "No record is stored more often in the target than in the source.",
        )

    def foreign(totals: PairTotals) -> int:
        # If the source had no new records, later records of the target cannot be from it.
        newer = totals.left_of("newer") if totals.pair in topic.quiet else 0
        return totals.left_of("foreign") + newer

    if count := sum(topic.sums(foreign).values()):
        yield counted(
            topic,
            "foreign records",
            LOST,
            f"{plural(count, 'record')} of the target {_is_or_are(count)} not in the source: somebody else "
            "writes to the "
            "mirror, and its readers get more than the source's.",
            foreign,
            ["foreign", "newer"],
        )
    if topic.sums(lambda totals: totals.left_of("older")):
        yield counted(
            topic,
            "retention in the source",
            BY_DESIGN,
            "Readers that begin at the start find more in the target.",
            lambda totals: totals.left_of("older"),
            ["older"],
            "each cluster removes old records by itself: the source's log begins later",
        )


def _changed(topic: TopicTotals, aspect: str) -> Row:
    name = change_name(aspect)

    def count(totals: PairTotals) -> int:
        return int(totals.matched.get(name) or 0)

    if not topic.sums(count):
        return Row(topic.what, aspect, IDENTICAL, f"All matched records have the same {aspect}.")
    by_target = (
        aspect == "timestamps" and topic.target.config.get("message.timestamp.type") == "LogAppendTime"
    )
    reason = "the target's message.timestamp.type is LogAppendTime" if by_target else ""
    return counted(topic, aspect, LOST, _MEANINGS[aspect], count, [name], reason)


def _timestamp_types(topic: TopicTotals) -> Row:
    name = change_name("timestamp types")

    def count(totals: PairTotals) -> int:
        return int(totals.matched.get(name) or 0)

    if not topic.sums(count):
        return Row(
            topic.what, "timestamp types", IDENTICAL, "Timestamps have the same type as in the source."
        )
    return counted(
        topic,
        "timestamp types",
        BY_DESIGN,
        "Clients that ask for a record's timestamp type get another answer.",
        count,
        [name],
        "a mirror writes timestamps as a producer does: CreateTime",
    )


def _order(topic: TopicTotals) -> Row:
    def count(totals: PairTotals) -> int:
        return int(totals.matched.get("reordered") or 0)

    if not topic.sums(count):
        return Row(topic.what, "order", IDENTICAL, "Within each partition records are in the source's order.")
    meaning = (
        "Consumers of the target get these after records that came later in the source: the last record of "
        "a key may differ."
    )
    return counted(topic, "order", LOST, meaning, count, ["reordered"])


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


def _is_or_are(count: int) -> str:
    return "is" if count == 1 else "are"
