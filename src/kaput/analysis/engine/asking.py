"""Collects what questions find in one task, and adds up the totals of all tasks.

Cases are counted by name, group and flag, and by member; each task keeps its first few as examples. All
other finds are parts of a sum, or rows passed to the tasks of places. Not here: how a sum is added (sums.py).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import polars as pl

from kaput.analysis.engine.pieces import Parts, Piece, by_part
from kaput.analysis.engine.question import Cases, Find, Question, SumPart, To, Unclear
from kaput.analysis.engine.sums import Kind, Sum, total
from kaput.analysis.runs.cutting import single
from kaput.analysis.runs.names import SHIFT, Names
from kaput.scenario.anomalies import ANOMALIES

Case = dict[str, Any]  # one example, with names instead of numbers, from which a story is written
SHOWN = 10  # of each anomaly, of the run or of a group
COUNTS: Mapping[str, Sum] = {
    "cases": Sum(("name", "group", "flag"), ("n",)),
    "unclear": Sum(("name", "group", "flag"), ("n",)),
    "by_member": Sum(("name", "group", "member", "flag"), ("n",)),
    "by_part": Sum(("name", "part"), ("n",)),
}
# The part that a case belongs to, of anomalies that are also counted by parts.
_PARTS: Mapping[str, pl.Expr] = {
    "topic": pl.col("place") // SHIFT,
    "producer": pl.col("producer"),
    "mirror": pl.col("mirror"),
}

CpuTimes = Counter[tuple[str, str]]  # ns, by stage and by question or what else took them
CPU: CpuTimes = Counter()  # of all tasks of this process's analyses


class CpuClock:
    """Notes what this process's CPU time is spent on."""

    def __init__(self) -> None:
        self.spent: CpuTimes = Counter()
        self._at = time.process_time_ns()

    def lap(self, stage: str, what: str) -> None:
        """What was spent since the last lap was spent on this."""
        now = time.process_time_ns()
        self.spent[stage, what] += now - self._at
        self._at = now


@dataclass(frozen=True)
class TaskFinds:
    """What questions found in one task. `sums`: COUNTS and the questions' own; `shown`: the first cases of
    each anomaly; `pieces`: tables for the tasks of places, with the number of the part they go to; `cpu`:
    what it spent.
    """

    sums: Mapping[str, pl.DataFrame]
    shown: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    pieces: Sequence[tuple[int, Piece]] = ()
    cpu: CpuTimes = field(default_factory=Counter)


class _Collector:
    """Collects the finds of one task."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._sums: dict[str, pl.DataFrame] = {}
        self._counts: dict[str, list[pl.DataFrame]] = {name: [] for name in COUNTS}
        self._shown: dict[str, pl.DataFrame] = {}
        self._pieces: list[tuple[int, Piece]] = []

    def add(self, question: Question, find: Find) -> None:
        """Adds a find of a question."""
        if find.rows.is_empty():
            return  # the usual case: nothing to add, count, show or pass on
        if isinstance(find, SumPart):
            kind, before = question.sums[find.name], self._sums.get(find.name)
            mine = find.rows if find.summed else kind.of(find.rows)
            self._sums[find.name] = mine if before is None else kind.of(pl.concat([before, mine]))
        elif isinstance(find, To):
            rows = find.rows.select(*question.passes[find.table])
            place = self._parts.place(pl.col("place"))
            self._pieces += by_part(rows, place, self._parts.places, find.table)
        elif isinstance(find, Unclear):
            self._count("unclear", find.name, find.rows.drop("flag", strict=False))
        else:
            rows = shown(find.rows, question.shown_by)
            mine = rows if find.finish is None else find.finish(rows)
            self._shown[find.name] = _both(self._shown.get(find.name), mine)
            self._count("cases", find.name, find.rows)
            of_members = find.rows if find.by_member is None else find.by_member
            if {"group", "member"} <= set(of_members.columns):
                self._count("by_member", find.name, of_members)
            part = _PARTS.get(ANOMALIES[find.name].by) if find.name in ANOMALIES else None
            if part is not None:
                self._count("by_part", find.name, find.rows.with_columns(part=part.cast(pl.String)))

    def _count(self, kind: str, name: str, rows: pl.DataFrame) -> None:
        given = {"group": pl.lit(None, pl.Int64), "flag": pl.lit(False)}
        lacking = {column: value for column, value in given.items() if column not in rows.columns}
        self._counts[kind].append(COUNTS[kind].of(rows.with_columns(name=pl.lit(name), **lacking)))

    def found(self, cpu: CpuTimes | None = None) -> TaskFinds:
        """The collected finds."""
        counts = {name: pl.concat(rows) for name, rows in self._counts.items() if rows}
        return TaskFinds(self._sums | counts, self._shown, self._pieces, cpu or Counter())


def ask(
    questions: Sequence[Question], stage: str, view: Any, parts: Parts, clock: CpuClock | None = None
) -> TaskFinds:
    """Runs one task: asks the questions of one view, except those that need rows of tables which it does not
    have. The view has tables, and the cases that earlier questions found, both by name.
    """
    collector, clock = _Collector(parts), clock or CpuClock()
    for question in questions:
        if not question.has_rows(stage, view.tables):
            continue
        for find in getattr(question, f"of_{stage}")(view):
            if isinstance(find, Cases) and find.rows.height:
                view.cases[find.name] = _both(view.cases.get(find.name), find.rows)
            collector.add(question, find)
        clock.lap(stage, type(question).__name__)
    return collector.found(clock.spent)


def _both(before: pl.DataFrame | None, rows: pl.DataFrame) -> pl.DataFrame:
    """All of them: a question may find cases of an anomaly in several goes."""
    return rows if before is None else pl.concat([before, rows], how="diagonal_relaxed")


def kinds(questions: Iterable[Question]) -> dict[str, Kind]:
    """All sums, by name."""
    by_name: dict[str, Kind] = dict(COUNTS)
    for question in questions:
        by_name |= question.sums
    return by_name


def passed_tables(questions: Iterable[Question]) -> dict[str, pl.DataFrame]:
    """Empty frames of the tables that questions pass to the tasks of places, by name."""
    return {name: _empty(tuple(s.items())) for q in questions for name, s in q.passes.items()}


@cache
def _empty(schema: tuple[tuple[str, Any], ...]) -> pl.DataFrame:
    return pl.DataFrame(schema=dict(schema))


@dataclass
class RunTotals:
    """What all tasks found: `sums` by name; numbers of cases by name, group and flag; of unclear ones by name
    and group; of cases by name, group, member and flag, and by name and part (topic, producer or mirror);
    `examples`, the first of each anomaly; `pieces` by part.
    """

    sums: dict[str, pl.DataFrame] = field(default_factory=dict)
    cases: Counter[tuple[str, int | None, bool]] = field(default_factory=Counter)
    unclear: Counter[tuple[str, int | None]] = field(default_factory=Counter)
    by_member: Counter[tuple[str, int, int, bool]] = field(default_factory=Counter)
    by_part: Counter[tuple[str, str]] = field(default_factory=Counter)
    examples: list[Case] = field(default_factory=list)
    pieces: dict[int, list[Piece]] = field(default_factory=dict)

    @classmethod
    def of(cls, questions: Iterable[Question]) -> RunTotals:
        """Totals before anything was found: every sum is empty."""
        return cls({name: kind.empty() for question in questions for name, kind in question.sums.items()})

    def add(self, finds: Iterable[TaskFinds], questions: Sequence[Question], names: Names) -> None:
        """Adds the finds of a stage. Frees each task's sums once they are added."""
        rest: list[TaskFinds] = []
        sums = total(_without_sums(finds, rest), kinds(questions))
        for name, group, flag, n in sums.pop("cases", pl.DataFrame()).iter_rows():
            self.cases[name, group, flag] += n
        for name, group, _, n in sums.pop("unclear", pl.DataFrame()).iter_rows():
            self.unclear[name, group] += n
        for name, group, member, flag, n in sums.pop("by_member", pl.DataFrame()).drop_nulls().iter_rows():
            self.by_member[name, group, member, flag] += n
        for name, part, n in sums.pop("by_part", pl.DataFrame()).drop_nulls().iter_rows():
            self.by_part[name, part] += n
        self.sums |= sums
        for question in questions:
            for name in question.stories:
                if frames := [part.shown[name] for part in rest if name in part.shown]:
                    every = pl.concat(frames, how="diagonal_relaxed")
                    few = first(every, question.shown_by).iter_rows(named=True)
                    self.examples += [_named({"name": name, **row}, names) for row in few]
        for number, piece in (keyed for part in rest for keyed in part.pieces):
            self.pieces.setdefault(number, []).append(piece)

    def conclude(self, questions: Sequence[Question], stage: str, run: Any) -> None:
        """Adds what questions find on the driver after the stage (`after_STAGE`)."""
        for question in questions:
            after: Callable[[Any], Iterable[Find] | None] | None = getattr(question, f"after_{stage}", None)
            if after is not None:
                collector = _Collector(Parts(1, 1))
                for find in after(run) or ():
                    collector.add(question, find)
                self.add([collector.found()], [question], run.names)

    def counted(self, name: str, group: int | None = None) -> int:
        """The number of cases of an anomaly, of one group or of all."""
        return sum(n for (case, grp, _), n in self.cases.items() if case == name and group in (None, grp))


def _without_sums(finds: Iterable[TaskFinds], rest: list[TaskFinds]) -> Iterator[Mapping[str, pl.DataFrame]]:
    for part in finds:
        rest.append(replace(part, sums={}))
        CPU.update(part.cpu)
        yield part.sums


def shown(rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """The first cases, one per row: a row that stands for n messages becomes up to n rows."""
    few = pl.min_horizontal("n", pl.lit(SHOWN, pl.Int64)).alias("n")
    return first(single(first(rows, by).with_columns(few)), by)


def first(cases: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """The first SHOWN rows (of each group, if there are groups), sorted by those columns that exist."""
    rows = cases.sort([column for column in by if column in cases.columns])
    if "group" in rows.columns:
        return rows.group_by("group", maintain_order=True).head(SHOWN)
    return rows.head(SHOWN)


def _named(row: Mapping[str, Any], names: Names) -> Case:
    """A row as a case, with names instead of numbers."""
    topic = None if row.get("topic") is None else names.topics[row["topic"]]
    where = names.place(row.get("place")) or (topic, None)
    member = None if row.get("member") is None else names.members[row["member"]]
    holder = {"producer": row.get("holder_producer"), "seq": row.get("holder_seq")}
    return {
        **row,
        "grp": row.get("group"),
        "topic": where[0],
        "partition": where[1],
        "member": member,
        "store": None if row.get("store") is None else names.stores[row["store"]],
        "holder": None if holder["producer"] is None else holder,
    }
