"""The question: one object for everything that the analysis says of one thing.

A question is asked of views (what a task holds), stage by stage; it defines only what it needs:

    of_rows(rows)          row groups as they are encoded (views/rows.py)
    of_stored(stored)      what partitions hold, before messages are matched (views/places.py)
    of_messages(messages)  the messages of some blocks, matched (views/messages.py)
    of_places(places)      what some partitions hold, and what was found of their messages (views/places.py)
    of_keys(keys)          the messages once more, for their keys (views/keys.py)
    of_sends(sends)        the sends once more (views/sends.py)

Each yields finds: cases of an anomaly, parts of a sum, tables for the tasks of places. These run in tasks, on
any machine, and know no Spark; two of them write tables (ledger.py, losses.py), the others touch no file. On
the driver, with the whole run (run.py):

    before_STAGE(run)      the question with what it needs to know in that stage; None: it has nothing to ask
    after_STAGE(run)       more finds, once the stage has been added up
    tell(run)              its parts of findings.json and of the verdict's facts
    wants(extents)         which row groups of sends are to be read for it
    checks(run)            counts that must agree, or this program is broken
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import polars as pl

from kaput.analysis.engine.sums import Kind
from kaput.verdict.rules import VerdictRule

if TYPE_CHECKING:
    from kaput.analysis.run import Run
    from kaput.analysis.views.sends import Extents

# "keys" and "sends" are looked at as often as a question still asks.
STAGES = ("rows", "stored", "messages", "places", "keys", "sends")
Row = Mapping[str, Any]


class Cases(NamedTuple):
    """Cases of an anomaly. Columns: `n`, how many a row stands for; `group`, where it is a group's; `flag`,
    where some are counted apart; `member`, where they are some member's; and what its story needs. `finish`
    is done to the few that are shown.
    """

    name: str
    rows: pl.DataFrame
    finish: Callable[[pl.DataFrame], pl.DataFrame] | None = None


class Unclear(NamedTuple):
    """What may be cases of an anomaly, or not: the evidence does not tell."""

    name: str
    rows: pl.DataFrame


class Part(NamedTuple):
    """A task's part of one of the question's `sums`."""

    name: str
    rows: pl.DataFrame


class To(NamedTuple):
    """Rows for the tasks of their places (column `place`), as one of the question's `passes`."""

    table: str
    rows: pl.DataFrame


Find = Cases | Unclear | Part | To


class Section(NamedTuple):
    """Fields of the findings (`section` findings, group or fault) or of the verdict's facts (facts or
    group_facts). `key`: the group's number, or the fault's id.
    """

    section: str
    key: int | str | None
    fields: Mapping[str, Any]


class Check(NamedTuple):
    """Two counts of one thing, which must be equal, and how each was counted."""

    what: str
    one: int
    other: int
    how: tuple[str, str]


@dataclass(frozen=True)
class Question:
    """See above. `stories`: for each anomaly that it finds, the sentence that tells a case; `rules`: of those
    that the configuration may permit, how cases are ruled; `shown_by`: in which order cases are shown.
    """

    sums: ClassVar[Mapping[str, Kind]] = {}
    passes: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    stories: ClassVar[Mapping[str, Callable[[Row], str]]] = {}
    rules: ClassVar[Mapping[str, VerdictRule]] = {}
    shown_by: ClassVar[Sequence[str]] = ("place", "offset", "at_ns", "producer", "seq", "member")

    def wants(self, extents: Extents) -> bool:
        """Of a question of sends: whether a row group may have what it asks for."""
        return True

    def report(self, run: Run) -> Iterable[Section]:
        """Its parts of the findings."""
        return ()

    def checks(self, run: Run) -> Iterable[Check]:
        """What must agree."""
        return ()


def findings(**fields: Any) -> Section:
    """Fields of the document."""
    return Section("findings", None, fields)


def group(index: int, **fields: Any) -> Section:
    """Fields of a group's findings."""
    return Section("group", index, fields)


def fault(id_: str, **fields: Any) -> Section:
    """Fields of a fault's findings."""
    return Section("fault", id_, fields)


def facts(**fields: Any) -> Section:
    """What the verdict is to know of the run."""
    return Section("facts", None, fields)


def group_facts(index: int, **fields: Any) -> Section:
    """What the verdict is to know of a group."""
    return Section("group_facts", index, fields)


def prepared(questions: Iterable[Question], stage: str, run: Run, again: bool) -> list[Question]:
    """Those that have something to ask in this stage, with what they need for it. `again`: it has been looked
    at, by these.
    """
    found = []
    for question in questions:
        before = getattr(question, f"before_{stage}", None)
        asks = hasattr(question, f"of_{stage}")
        if asks and before is not None and (ready := before(run)) is not None:
            found.append(ready)
        elif asks and before is None and not again:
            found.append(question)
    return found


def asked(question: Question, stage: str, view: Any) -> Iterator[Find]:
    """What it finds in one task."""
    yield from getattr(question, f"of_{stage}")(view)
