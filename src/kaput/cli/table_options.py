"""--columns and --reports: options for printing several runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

import typer

Columns = Annotated[
    str | None,
    typer.Option(
        metavar="NAME,...",
        help="Columns of the table of several runs, in this order: verdict,lost,election-ms (default: those "
        "that differ).",
    ),
]
Reports = Annotated[
    bool,
    typer.Option("--reports", help="For several runs, also print every report (default: their paths)."),
]


@dataclass(frozen=True)
class TableOptions:
    """Options for printing several runs. `columns`: names of columns, empty: those that differ; `reports`:
    whether to print every report.
    """

    columns: tuple[str, ...] = ()
    reports: bool = True


def columns_of(text: str | None, several: bool, varied: Iterable[str]) -> tuple[str, ...]:
    """The names in --columns. `varied`: keys of settings that vary. Raises UsageError."""
    if text is None:
        return ()
    from kaput.errors import UsageError
    from kaput.report.comparison import parse

    if not several:
        raise UsageError("--columns is for the table of several runs")
    return tuple(parse(text, varied))
