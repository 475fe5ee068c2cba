"""The engine with questions of its own: what is found in tasks, counted, shown, added up, passed on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl
import pytest

from kaput.analysis.engine.asking import RunTotals, TaskFinds, ask, passed_tables
from kaput.analysis.engine.pieces import Parts, gathered
from kaput.analysis.engine.question import Cases, Find, Question, SumPart, To, Unclear, prepared
from kaput.analysis.engine.sums import Collected, Sum
from kaput.analysis.questions import questions
from kaput.analysis.runs.names import Names

NAMES = Names(["orders"], ["audit", "billing"], ["m1", "m2"])
PARTS = Parts(messages=2, places=3)


@dataclass(frozen=True)
class View:
    """What a task holds here: numbers."""

    numbers: list[int]
    cases: dict[str, pl.DataFrame] = field(default_factory=dict)
    tables: dict[str, pl.DataFrame] = field(default_factory=dict)


class Odd(Question):
    """Each odd number is a case of a group, each multiple of five perhaps one."""

    sums = {"sum": Sum(("even",), ("n",), ("least",)), "all": Collected(("n",))}
    passes = {"to_places": {"place": pl.Int64, "n": pl.Int64}}
    stories = {"odd": lambda r: f"{r['n']} is odd"}
    shown_by = ("at_ns",)

    def of_messages(self, view: View) -> Iterator[Find]:
        """Everything that can be found."""
        rows = pl.DataFrame({"n": 1, "at_ns": view.numbers, "group": [n % 2 for n in view.numbers]})
        odd = rows.filter(pl.col("at_ns") % 2 == 1).with_columns(
            flag=pl.col("at_ns") > 3, member=pl.lit(0, pl.Int64)
        )
        yield Cases("odd", odd, lambda few: few.with_columns(shown=True))
        yield Unclear("odd", rows.filter(pl.col("at_ns") % 5 == 0))
        even = pl.col("at_ns") % 2 == 0
        yield SumPart("sum", rows.select(even.alias("even"), "n", least="at_ns"))
        yield SumPart("all", pl.DataFrame({"n": view.numbers}))
        yield To("to_places", pl.DataFrame({"place": view.numbers, "n": view.numbers}))

    def after_messages(self, run: Any) -> Iterator[Find]:
        """One more case on the driver."""
        yield Cases("odd", pl.DataFrame({"n": [10], "at_ns": [0], "group": [1], "flag": [False]}))


class Watches(Question):
    """Notes which cases others have found before it, in the same task."""

    sums = {"seen": Sum((), ("n",))}

    def of_messages(self, view: View) -> Iterator[Find]:
        yield SumPart("seen", pl.DataFrame({"n": [len(view.cases.get("odd", ()))]}))


def _totals(*tasks: list[int]) -> tuple[RunTotals, list[TaskFinds]]:
    asked: list[Question] = [Odd(), Watches()]
    found = [ask(asked, "messages", View(numbers), PARTS) for numbers in tasks]
    totals = RunTotals.of(asked)
    totals.add(iter(found), asked, NAMES)
    return totals, found


def test_cases_are_counted_by_name_group_and_flag_and_for_members() -> None:
    """Over all tasks; what is unclear apart."""
    totals, _ = _totals([1, 2, 3], [5, 10, 7])
    assert totals.cases == {("odd", 1, False): 2, ("odd", 1, True): 2}
    assert totals.unclear == {("odd", 1): 1, ("odd", 0): 1}
    assert totals.by_member == {("odd", 1, 0, False): 2, ("odd", 1, 0, True): 2}
    assert (totals.counted("odd"), totals.counted("odd", 1), totals.counted("odd", 0)) == (4, 4, 0)


def test_the_first_cases_of_all_tasks_are_shown() -> None:
    """In the question's order, ten at most, finished where it says so, with words for numbers."""
    totals, _ = _totals(list(range(19, 40)), list(range(1, 18)))
    assert [row["at_ns"] for row in totals.examples] == list(range(1, 20, 2))
    assert all(row["shown"] and row["name"] == "odd" and row["member"] == "m1" for row in totals.examples)


def test_sums_are_added_and_rows_kept() -> None:
    """Of tasks that have some of them, and of those that have none."""
    totals, _ = _totals([4, 2], [], [3])
    assert sorted(totals.sums["sum"].iter_rows()) == [(False, 1, 3), (True, 2, 2)]
    assert sorted(totals.sums["all"]["n"]) == [2, 3, 4]
    assert totals.sums["seen"]["n"].to_list() == [1]


def test_rows_passed_on_reach_the_task_of_their_place() -> None:
    """And a task that nothing is passed to has the table without rows."""
    totals, _ = _totals([0, 1, 2, 3])
    none = passed_tables([Odd()])
    arrived = {
        part: gathered(pieces, none)["to_places"]["n"].to_list() for part, pieces in totals.pieces.items()
    }
    assert arrived == {2: [0, 3], 3: [1], 4: [2]}
    assert gathered([], none)["to_places"].columns == ["place", "n"]


def test_driver_side_cases_are_counted() -> None:
    """Once the stage has been added up."""
    totals, _ = _totals([1])
    run = type("Run", (), {"names": NAMES})()
    totals.conclude([Odd()], "messages", run)
    assert totals.counted("odd") == 11
    assert [row["at_ns"] for row in totals.examples[:2]] == [1, 0]


@dataclass(frozen=True)
class Twice(Question):
    """Looks at the sends twice."""

    looks: int = 0

    def before_sends(self, _run: object) -> Twice | None:
        """The third time there is nothing to ask."""
        return replace(self, looks=self.looks + 1) if self.looks < 2 else None

    def of_sends(self, _view: object) -> Iterator[Find]:
        yield from ()


def test_question_repeats_its_stage_until_it_returns_nothing() -> None:
    """And only in the stages that it defines."""
    every: list[Question] = [Twice(), Odd()]
    run: Any = None
    first = prepared(every, "sends", run, again=False)
    second = prepared(first, "sends", run, again=True)
    assert first == [Twice(1)] and second == [Twice(2)]
    assert prepared(second, "sends", run, again=True) == []
    assert [type(one) for one in prepared(every, "messages", run, again=False)] == [Odd]
    assert prepared(every, "messages", run, again=True) == []


@pytest.mark.parametrize("kind", ["sums", "passes", "stories"])
def test_question_names_are_unique(kind: str) -> None:
    """Sums, tables and anomalies are kept apart by their names alone."""
    names = [name for question in questions() for name in getattr(question, kind)]
    assert len(names) == len(set(names))
