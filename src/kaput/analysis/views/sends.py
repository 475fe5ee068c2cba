"""A row group of sends once more, for what only the whole run tells."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import polars as pl

from kaput.analysis.engine.asking import Found, ask
from kaput.analysis.engine.question import Question
from kaput.analysis.runs.tables import Unit, empty, read, spans
from kaput.analysis.views.known import Known

_ASKED = ("attempt_ns", "done_ns", "seq")
Span = tuple[int | None, int | None]  # from and to, both inclusive; None: of none


@dataclass(frozen=True)
class Sends:
    """All `rows` of a row group, with numbers for names."""

    rows: pl.DataFrame
    known: Known
    cases: dict[str, pl.DataFrame] = field(default_factory=dict)


def scan(units: Iterable[Unit], known: Known, questions: Sequence[Question]) -> Iterator[Found]:
    """One task: what is found in each row group."""
    for unit in units:
        yield ask(questions, "sends", Sends(read(unit, known.names).whole(), known), known.parts)


def nothing(known: Known, questions: Sequence[Question]) -> Found:
    """What is found in no rows."""
    return ask(questions, "sends", Sends(empty("sends").whole(), known), known.parts)


class Extents:
    """How far a row group reaches, as its file tells: attempt_ns, done_ns and seq."""

    def __init__(self, unit: Unit) -> None:
        self._spans = dict(zip(_ASKED, spans(unit, _ASKED), strict=True))

    def meets(self, column: str, span: Span) -> bool:
        """Whether the column may have a value within the span."""
        (first, last), known = span, self._spans[column]
        if first is None or last is None:
            return False
        return known is None or (known[0] <= last and first <= known[1])
