"""Stage sends: row groups of sends again, for questions that need facts about the whole run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from kaput.analysis.engine.asking import TaskFinds, ask
from kaput.analysis.engine.question import Question
from kaput.analysis.runs.tables import Unit, read, spans
from kaput.analysis.views.known import Known

_COLUMNS = ("attempt_ns", "done_ns", "seq")
Span = tuple[int | None, int | None]  # from and to, both inclusive; None: empty


@dataclass(frozen=True)
class Sends:
    """All `rows` of a row group, with numbers instead of names."""

    rows: pl.DataFrame
    known: Known
    cases: dict[str, pl.DataFrame] = field(default_factory=dict)

    @property
    def tables(self) -> Mapping[str, pl.DataFrame]:
        """The rows, by the name of their table."""
        return {"sends": self.rows}


def scan(units: Iterable[Unit], known: Known, questions: Sequence[Question]) -> Iterator[TaskFinds]:
    """Runs one task: yields the finds of each row group."""
    for unit in units:
        yield ask(questions, "sends", Sends(read(unit, known.names).whole(), known), known.parts)


class Extents:
    """The ranges of attempt_ns, done_ns and seq in a row group, from its file's statistics."""

    def __init__(self, unit: Unit) -> None:
        self._spans = dict(zip(_COLUMNS, spans(unit, _COLUMNS), strict=True))

    def meets(self, column: str, span: Span) -> bool:
        """Whether the column may have a value in the span."""
        (first, last), known = span, self._spans[column]
        if first is None or last is None:
            return False
        return known is None or (known[0] <= last and first <= known[1])
