"""Columns of the table of runs, chosen by name (`--columns`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kaput.errors import UsageError
from kaput.report.comparison import EVERY_FIGURE, NAMING, Comparison, RunColumn
from kaput.report.formats import NOTHING
from kaput.report.labels import short_names
from kaput.scenario.nearest import hint


def parse(text: str, varied: Iterable[str] = ()) -> list[str]:
    """Parses `lost,ack-p99-ms` into column names. `varied`: the settings that differ between the runs, each
    of which is a column. Raises UsageError for an unknown name.
    """
    short = short_names(list(dict.fromkeys(varied)))
    known = {_key(name): name for name in (*NAMING, *short.values(), *EVERY_FIGURE)}
    known |= {_key(key): name for key, name in short.items() if _key(key) not in known}
    names = []
    for word in text.split(","):
        if (name := known.get(_key(word))) is None:
            near = hint(_key(word), known)
            every = "" if near.startswith("valid") else f" Valid are {', '.join(known)}"
            raise UsageError(f"--columns {word.strip()}: no such column; {near}{every}")
        names.append(name)
    return list(dict.fromkeys(names))


def chosen(comparison: Comparison, names: Sequence[str]) -> list[RunColumn]:
    """The columns with these names, in this order. The columns that identify the runs come first, unless
    `names` has one of them.
    """
    every = {column.name: column for column in (*comparison.naming, *comparison.figures)}
    naming = [column for column in comparison.naming if column.names]
    first = [] if any(column.name in names for column in naming) else naming
    nothing = [NOTHING] * len(comparison.naming[0].cells)
    return [*first, *(every.get(name) or RunColumn(name, nothing) for name in names)]


def _key(name: str) -> str:
    return name.strip().lower().replace(" ", "-")
