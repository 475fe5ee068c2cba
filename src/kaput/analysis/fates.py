"""From a sealed run folder to the fates of its messages alone, for those who want nothing else.

The same fates as in the findings (dense/counted.py), for a fraction of the work: offsets and times are not
read. So nothing is judged, and a log that has the same record twice is not refused: it counts as two copies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import get_args

from pyspark.sql import SparkSession

from kaput.analysis import inputs
from kaput.analysis.assemble import fates_of, group_fates_of, run_of
from kaput.analysis.dense import fates
from kaput.analysis.dense.context import Context
from kaput.analysis.dense.fate_sums import DELIVERED, STORED, UNPLACED, UNREAD, Asked, Sums
from kaput.analysis.dense.work import TABLES, Plan, bounds_of, same_text
from kaput.analysis.inputs import Inputs
from kaput.analysis.names import Place
from kaput.analysis.pipeline import readable
from kaput.analysis.tally import Tally, check
from kaput.analysis.watching import Tell, nobody, watched
from kaput.errors import EvidenceError
from kaput.evidence.fates import Fates, GroupFates
from kaput.evidence.findings import Delivered, Stored, Totals
from kaput.evidence.parquet import footer_of
from kaput.evidence.reading import Evidence
from kaput.scenario.vocabulary import OUTCOMES

_STORED: tuple[Stored, ...] = get_args(Stored)
_DELIVERED: tuple[Delivered, ...] = get_args(Delivered)


def count(evidence: Evidence, spark: SparkSession, tell: Tell = nobody, work: Plan | None = None) -> Fates:
    """Counts a checked run folder and writes nothing. `work`: how, if not as is best for its size.

    Raises EvidenceError, AccountingError.
    """
    given = inputs.read(evidence)
    work = work or fates.plan(evidence)
    read = _read_to_end(given)
    complete = frozenset(given.names.code(place) for place, done in read.items() if done)
    asked = Asked(Context(given.names, work.bits, work.homes, complete), not _all_read(given, read))
    with readable(), watched(spark, len(work.tasks) + work.homes.parts, tell):
        sums = fates.run(spark, work, asked)
    if sums.sent_twice is not None:
        who, seq = sums.sent_twice
        raise EvidenceError(f"table sends: message {seq} of producer {who} has more than one row")
    tally = _tally(given, sums, _topics(given, read, sums))
    check(tally, given.groups, evidence.tables["sends"].rows)
    return _document(given, tally, sums)


def _read_to_end(given: Inputs) -> dict[Place, bool]:
    """Whether the partitions that are known without a look at the messages were read to their end."""
    read = dict.fromkeys(given.expected_places, False)
    return read | {place: end == drained for place, (end, drained) in given.ends.items()}


def _all_read(given: Inputs, read: Mapping[Place, bool]) -> bool:
    """Whether that is sure of every partition, by what the footers tell of those that messages name."""
    places = [place for table in TABLES for place in _named(given.evidence, table)]
    known = {topic for topic, _ in read}
    return (
        all(read.values())
        and all(place is not None and read.get(place, False) for place in places)
        # Of a message without a partition only the topic tells.
        and given.evidence.words["sends", "topic"] <= known
    )


def _named(evidence: Evidence, table: str) -> Iterator[Place | None]:
    """The partitions that some row of a table may name; None where the footers do not tell."""
    words = evidence.words[table, "topic"]
    found: set[tuple[str | None, int, int] | None] = set()
    for path in evidence.tables[table].files:
        footer = footer_of(path)
        for index in range(footer.num_row_groups):
            group = footer.row_group(index)
            if group.num_rows:
                topic, bounds = same_text(group, "topic"), bounds_of(group, "partition")
                found.add(None if bounds is None else (topic, *bounds))
    for one in found:
        if one is None or one[2] - one[1] > 1 << 20:
            yield None
        else:
            topic, low, high = one
            for name in words if topic is None else (topic,):
                yield from ((name, partition) for partition in range(low, high + 1))


def _topics(given: Inputs, read: Mapping[Place, bool], sums: Sums) -> Mapping[str, bool]:
    """Whether all of a topic's partitions were read to their end, also those that only messages name."""
    named = {place for code in sums.places if (place := given.names.place(code)) is not None}
    topics: dict[str, bool] = {}
    for place in {*read, *named}:
        topics[place[0]] = topics.get(place[0], True) and read.get(place, False)
    return topics


def _tally(given: Inputs, sums: Sums, topics: Mapping[str, bool]) -> Tally:
    """The cells by their words."""
    tally = Tally()

    def label(kind: int, stored: int) -> Stored:
        if stored:
            return _STORED[stored]
        if kind >= UNPLACED:
            return "0" if topics.get(given.names.topics[kind - UNPLACED]) else "unread"
        return "unread" if kind == UNREAD else "0"

    def cells(counts: list[int], times: int) -> Iterator[tuple[str, Stored, int, int]]:
        for cell, messages in enumerate(counts):
            state, stored, delivered = cell // times // STORED, cell // times % STORED, cell % times
            if messages and state:
                kind, outcome = divmod(state - 1, len(OUTCOMES))
                yield OUTCOMES[outcome], label(kind, stored), delivered, messages

    for outcome, stored, _, messages in cells(sums.fates.tolist(), 1):
        tally.fates[outcome, stored] += messages
    for group, counts in sums.cells.items():
        for outcome, stored, delivered, messages in cells(counts.tolist(), DELIVERED):
            tally.group_fates[group, outcome, stored, _DELIVERED[delivered]] += messages
    return tally


def _document(given: Inputs, tally: Tally, sums: Sums) -> Fates:
    return Fates(
        run=run_of(given),
        totals=Totals(
            sent=sum(tally.fates.values()),
            acked=tally.outcome("acked"),
            failed=tally.outcome("failed"),
            unknown=tally.outcome("unknown"),
            log_records=given.evidence.tables["log"].rows,
            stored_messages=tally.stored("1", "n"),
            foreign_records=sums.foreign,
            unread=tally.stored("unread"),
        ),
        fates=fates_of(tally),
        groups=[
            GroupFates(group=name, fates=group_fates_of(tally, index))
            for index, name in enumerate(given.groups)
        ],
    )
