"""A second look at the evidence, where the first has told what to look for: a Spark job over some row groups.

Not here: what is asked, and what the answers mean (closer/).
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from kaput.analysis.dense.columns import Columns, of_row_group, open_parquet
from kaput.analysis.dense.context import ACKED, OUTCOME, Context
from kaput.analysis.dense.numbers import NULL, Ints
from kaput.analysis.dense.pile import Pile, Piles
from kaput.analysis.dense.split import grouped
from kaput.analysis.dense.work import Unit, bounds_of, shared_out, units_of
from kaput.evidence.parquet import footer_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kaput.evidence.reading import Evidence

_TASK_ROWS = 4_000_000
_COLUMNS = {
    "sends": ("topic", "partition", "attempt_ns", "done_ns", "outcome"),
    "log": ("topic", "partition", "offset", "producer", "seq", "intact"),
    "deliveries": ("group", "topic", "partition", "offset", "producer", "seq", "intact", "polled_ns"),
}
_TEXTS = {"sends": ("topic", "outcome"), "log": ("topic",), "deliveries": ("group", "topic")}


class Zones(NamedTuple):
    """Offsets of a place: from each start up to, and without, its end. Sorted, and apart from one another."""

    starts: Ints
    ends: Ints

    def hold(self, offsets: Ints) -> npt.NDArray[np.bool_]:
        """Which offsets lie in one."""
        at = np.searchsorted(self.starts, offsets, side="right") - 1
        return (at >= 0) & (offsets < np.concatenate([self.ends, [NULL]])[at])


def zones(starts: Ints, ends: Ints) -> Zones:
    """Zones made of any intervals."""
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    apart = np.ones(len(starts), bool)
    apart[1:] = starts[1:] > ends[:-1]
    last = np.concatenate([np.flatnonzero(apart)[1:] - 1, [len(starts) - 1]]) if len(starts) else starts
    return Zones(starts[apart], ends[last])


class Span(NamedTuple):
    """Times of a fault (see faults.Span), and the elections in the places that it reached."""

    window: tuple[int, int] | None
    losses: tuple[int, int] | None
    elections: Mapping[int, int | None]


@dataclass(frozen=True)
class Questions:
    """`log`: by place; `deliveries`: by (group, place); `spans`: in which attempts are counted."""

    log: Mapping[int, Zones] = field(default_factory=dict)
    deliveries: Mapping[tuple[int, int], Zones] = field(default_factory=dict)
    spans: Sequence[Span] = ()

    def __bool__(self) -> bool:
        return bool(self.log or self.deliveries or self.spans)


@dataclass
class Answers:
    """`piles`: log (place, offset, producer, seq), deliveries (grp, place, offset, producer, seq, at_ns).

    `counts`, a row a span: sent and affected in the window, sent and acknowledged in that of the losses.
    """

    piles: Piles
    counts: Ints


def scan(spark: SparkSession, evidence: Evidence, context: Context, questions: Questions) -> Answers:
    """Asks every row group that may know."""
    units = list(_asked(evidence, questions))
    total = Answers(Piles(), np.zeros((len(questions.spans), 4), np.int64))
    if not units:
        return total
    count = max(1, sum(unit.rows for unit in units) // _TASK_ROWS)
    tasks = spark.sparkContext.parallelize(list(shared_out(units, count)), count)
    for payload in tasks.mapPartitions(_answering(context, questions)).collect():
        answers: Answers = pickle.loads(payload)
        total.piles.add(answers.piles)
        total.counts += answers.counts
    return total


def _asked(evidence: Evidence, questions: Questions) -> Iterator[Unit]:
    wanted: list[tuple[str, Sequence[tuple[str, int, int]]]] = []
    if questions.log:
        wanted.append(("log", [("offset", *_bounds(questions.log.values()))]))
    if questions.deliveries:
        wanted.append(("deliveries", [("offset", *_bounds(questions.deliveries.values()))]))
    if questions.spans:
        tried = [span for one in questions.spans for span in (one.window, one.losses) if span]
        low, high = min(start for start, _ in tried), max(end for _, end in tried)
        wanted.append(("sends", [("attempt_ns", low, high), ("done_ns", low, high)]))
    for table, bounds in wanted:
        for path in evidence.tables[table].files:
            footer = footer_of(path)
            for unit in units_of(table, path, footer):
                if any(_may_hold(footer.row_group(unit.index), *bound) for bound in bounds):
                    yield unit


def _bounds(found: Iterable[Zones]) -> tuple[int, int]:
    every = list(found)
    return min(int(z.starts[0]) for z in every), max(int(z.ends[-1]) for z in every)


def _may_hold(group: pq.RowGroupMetaData, column: str, low: int, high: int) -> bool:
    known = bounds_of(group, column)
    return known is None or (known[0] <= high and known[1] >= low)


Step = Callable[[Iterable[Sequence[Unit]]], Iterator[bytes]]


def _answering(context: Context, questions: Questions) -> Step:
    def answer(tasks: Iterable[Sequence[Unit]]) -> Iterator[bytes]:
        answers = Answers(Piles(), np.zeros((len(questions.spans), 4), np.int64))
        for units in tasks:
            for unit in units:
                _answer(unit, context, questions, answers)
                answers.piles.settle()
        yield pickle.dumps(answers)

    return answer


def _answer(unit: Unit, context: Context, questions: Questions, answers: Answers) -> None:
    if unit.table == "sends":
        columns = _read(unit)
        answers.counts += _counted(columns, context, questions.spans)
    elif unit.table == "log":
        _keep(_read(unit), context, questions.log, answers.piles["log"])
    else:
        columns = _read(unit)
        for (group,), rows in grouped(columns.codes("group", context.groups)):
            mine = columns if isinstance(rows, slice) else columns.take(rows)
            zones_ = {place: found for (of, place), found in questions.deliveries.items() if of == group}
            _keep(mine, context, zones_, answers.piles["deliveries"], grp=group)


def _read(unit: Unit) -> Columns:
    return of_row_group(open_parquet(unit.path, _TEXTS[unit.table]), unit, _COLUMNS[unit.table])


def _keep(columns: Columns, context: Context, zones_: Mapping[int, Zones], pile: Pile, **of: int) -> None:
    """The rows that lie in a zone of their place, for the pile."""
    if not zones_:
        return
    from kaput.analysis.dense.held import held  # compiled: the driver goes without

    place = context.places(columns, columns.codes("topic", context.topics))
    rows = held(place, columns.numbers("offset"), zones_)
    if len(rows) == 0:
        return
    columns = columns.take(rows)
    producer, seq = columns.numbers("producer"), columns.numbers("seq")
    nobody = ~columns.flags("intact") | (producer == NULL) | (seq == NULL)
    times = {"at_ns": columns.numbers("polled_ns")} if of else {}
    pile.put(
        offset=columns.numbers("offset"),
        producer=np.where(nobody, NULL, producer),
        seq=np.where(nobody, NULL, seq),
        place=place[rows],
        **times,
        **of,
    )


def _counted(columns: Columns, context: Context, spans: Sequence[Span]) -> Ints:
    """A row a span: what Answers.counts has."""
    attempt, done = columns.numbers("attempt_ns"), columns.numbers("done_ns")
    acked = columns.codes("outcome", OUTCOME) == ACKED
    place = context.places(columns, columns.codes("topic", context.topics))
    counts = np.zeros((len(spans), 4), np.int64)
    for row, span in zip(counts, spans, strict=True):
        if span.window is not None:
            inside = (attempt >= span.window[0]) & (attempt <= span.window[1])
            given_up = inside & ~acked
            row[0] = np.count_nonzero(inside)
            row[1] = np.count_nonzero(given_up & (place == NULL))
            for at, election_ns in span.elections.items():
                late = acked & (done > election_ns) if election_ns is not None else False
                row[1] += np.count_nonzero((given_up | (inside & late)) & (place == at))
        if span.losses is not None:
            low, high = span.losses
            row[2] = np.count_nonzero((attempt >= low) & (attempt <= high))
            row[3] = np.count_nonzero(acked & (done >= low) & (done <= high))
    return counts
