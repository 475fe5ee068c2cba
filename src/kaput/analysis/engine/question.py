"""The interface of a question: one object computes everything about one aspect of a run, such as losses.

A question is asked of views (the data of one task), stage by stage. It defines only what it needs:

    of_rows(rows)          row groups as they are encoded (views/rows.py)
    of_stored(stored)      records of some partitions, before messages are matched (views/places.py)
    of_messages(messages)  messages of some blocks, matched with log and deliveries (views/messages.py)
    of_places(places)      records of some partitions, with results of the messages stage (views/places.py)
    of_keys(keys)          the messages again, for their keys (views/messages.py)
    of_sends(sends)        the sends again (views/rows.py)

Each yields finds: cases of an anomaly, parts of a sum, rows for the tasks of places. A find without rows is
none, so a method returns as soon as it has nothing to look at; if the tables that the question `needs` are
empty, it is not called. These methods run in tasks, on any machine, and do not use Spark. Two questions write
tables (ledger.py, losses.py), the others access no files. On the driver, with the whole run (run.py: Run):

    before_STAGE(run)      returns the question with the data it needs in that stage; None: skip the stage
    after_STAGE(run)       yields more finds, from the totals of the stage
    report(run)            its sections of findings.json and of the verdict's facts, and checks
    wants(extents)         whether it needs a row group of sends

At the end: phrases for the sentences of examples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import polars as pl

from kaput.analysis.engine.sums import Kind
from kaput.analysis.runs.tables import Extents
from kaput.core import clock
from kaput.verdict.rules import VerdictRule

# The stages "keys" and "sends" repeat as long as a question returns itself from before_STAGE.
STAGES = ("rows", "stored", "messages", "places", "keys", "sends")
Row = Mapping[str, Any]


class Cases(NamedTuple):
    """Cases of an anomaly. Columns: `n`, how many cases a row stands for; and those that its story needs.
    Optional: `group`; `member`; `flag`, to count some cases separately. `finish` is applied to the examples.
    `by_member`: (group, member, flag, n), for the counts of members, if a case may count for several of them.
    """

    name: str
    rows: pl.DataFrame
    finish: Callable[[pl.DataFrame], pl.DataFrame] | None = None
    by_member: pl.DataFrame | None = None


class Unclear(NamedTuple):
    """Possible cases of an anomaly: the evidence does not tell whether they are."""

    name: str
    rows: pl.DataFrame


class SumPart(NamedTuple):
    """A part of one of the question's `sums`; a task may have several. `summed`: has one row per key."""

    name: str
    rows: pl.DataFrame
    summed: bool = False


class To(NamedTuple):
    """Rows to pass to the tasks of their places (column `place`): the columns that a table of the question's
    `passes` declares.
    """

    table: str
    rows: pl.DataFrame


Find = Cases | Unclear | SumPart | To


Key = int | str | tuple[str, int | None] | None


class Reported(NamedTuple):
    """Fields of the findings (`section` findings, group, fault or anomaly) or of the verdict's facts (facts
    or group_facts). `key`: the group's number, the fault's id, or the anomaly and its group's number.
    """

    section: str
    key: Key
    fields: Mapping[str, Any]


class Check(NamedTuple):
    """Two counts of the same thing, which must be equal, or this program has a bug; how each was counted."""

    what: str
    one: int
    other: int
    how: tuple[str, str]


@dataclass(frozen=True)
class Question:
    """Base class; see the module docstring.

    `needs`: by stage, tables of the view of which at least one must have rows, else the question is not asked
    in that task; `sums`: by name, what to add up; `passes`: schemas of tables for the tasks of places;
    `stories`: by anomaly, the function that describes a case in a sentence; `rules`: by anomaly, how the
    verdict decides which cases are permitted; `shown_by`: the columns that order the examples.
    """

    needs: ClassVar[Mapping[str, Sequence[str]]] = {}
    sums: ClassVar[Mapping[str, Kind]] = {}
    passes: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    stories: ClassVar[Mapping[str, Callable[[Row], str]]] = {}
    rules: ClassVar[Mapping[str, VerdictRule]] = {}
    shown_by: ClassVar[Sequence[str]] = ("place", "offset", "at_ns", "producer", "seq", "member")

    def has_rows(self, stage: str, tables: Mapping[str, pl.DataFrame]) -> bool:
        """Whether these have rows of a table that the question needs in this stage."""
        needed = self.needs.get(stage)
        return needed is None or any(tables[name].height for name in needed if name in tables)

    def wants(self, extents: Extents) -> bool:
        """Whether a row group of sends may contain what the question needs."""
        return True

    def report(self, run: Any) -> Iterable[Reported | Check]:
        """Its sections of the findings and of the verdict's facts, and pairs of counts that must be equal."""
        return ()


def findings(**fields: Any) -> Reported:
    """Top-level fields of the findings."""
    return Reported("findings", None, fields)


def group(index: int, **fields: Any) -> Reported:
    """Fields of a group's findings."""
    return Reported("group", index, fields)


def fault(id_: str, **fields: Any) -> Reported:
    """Fields of a fault's findings."""
    return Reported("fault", id_, fields)


def anomaly(name: str, group: int | None = None, **fields: Any) -> Reported:
    """Of an anomaly (of a group): `causes` and `extra_copies` for its findings, and `excused`, the number of
    cases by what excuses them, for its rule.
    """
    return Reported("anomaly", (name, group), fields)


def facts(**fields: Any) -> Reported:
    """Facts about the run for the verdict."""
    return Reported("facts", None, fields)


def group_facts(index: int, **fields: Any) -> Reported:
    """Facts about a group for the verdict."""
    return Reported("group_facts", index, fields)


def prepared(questions: Iterable[Question], stage: str, run: Any, again: bool) -> list[Question]:
    """The questions to ask in this stage, with the data they need. `again`: they have been asked in this
    stage before.
    """
    ready_to_ask = []
    for question in questions:
        before = getattr(question, f"before_{stage}", None)
        asks = hasattr(question, f"of_{stage}")
        if asks and before is not None and (ready := before(run)) is not None:
            ready_to_ask.append(ready)
        elif asks and before is None and not again:
            ready_to_ask.append(question)
    return ready_to_ask


def message(row: Row, prefix: str = "") -> str:
    """A message by its producer and number."""
    return f"producer {row[prefix + 'producer']}'s message {row[prefix + 'seq']:,}"


def at(row: Row) -> str:
    """The partition of a case, and its offset if known."""
    if row.get("partition") is None:
        return f"{row['topic']}, partition unknown"
    place = f"{row['topic']}/{row['partition']}"
    return place if row.get("offset") is None else f"{place} offset {row['offset']:,}"


def member(row: Row) -> str:
    """A member by its name; kaput's own names say that it is one."""
    name = str(row["member"])
    return name if name.startswith("member-") else f"member {name}"


def poll(row: Row) -> str:
    """Which member received what, and when."""
    return f"{member(row)} received {at(row)} at {clock(row['at_ns'])}"
