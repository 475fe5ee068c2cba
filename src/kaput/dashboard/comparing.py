"""Two runs side by side: the figures that `kaput report RUN RUN` puts in a table, a line for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kaput.dashboard.safe_files import Runs
from kaput.errors import UsageError
from kaput.evidence.findings_file import read_findings
from kaput.report.comparison import Entry, compare


class NotComparable(Exception):
    """A run that has no findings, or none that can be read; a sentence."""


class Line(NamedTuple):
    """One figure of both runs."""

    name: str
    cells: Sequence[str]
    differs: bool


class SideBySide(NamedTuple):
    """The lines, those in which the runs differ first."""

    lines: list[Line]


def side_by_side(runs: Runs, names: Sequence[str]) -> SideBySide:
    """The table. Raises NotComparable, OSError."""
    found = compare([_entry(runs, name) for name in names])
    naming = [column for column in found.naming if column.name != "run"]
    columns = [*naming, *found.figures]
    return SideBySide([Line(column.name, list(column.cells), column.differs) for column in columns])


def _entry(runs: Runs, name: str) -> Entry:
    runs.check(name, "findings.json")
    try:
        findings = read_findings(runs.folder(name).findings_path)
    except UsageError as error:
        raise NotComparable(str(error)) from None
    # Each by itself: two runs of one scenario are compared as well, and not their mean.
    return Entry(name, name, findings.run.scenario, findings.run.varied, findings)
