"""--baseline and --tolerance: compare runs with earlier ones. Exit status 1 if a figure is worse."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from kaput.evidence.findings import Findings
    from kaput.report.baseline import Tolerance

Baseline = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE",
        help="findings.json or a run folder to compare with: exit status 1 if a figure is worse. Repeatable, "
        "one for each scenario (docs/CI.md).",
    ),
]
ToleranceOption = Annotated[
    list[str] | None,
    typer.Option(
        "--tolerance",
        metavar="SHARE",
        help="With --baseline: how much worse figures may be (default: 20%, and 100 ms), or how much one "
        "figure may be: election-ms=50%, lost=3. Repeatable.",
    ),
]


@dataclass(frozen=True)
class Baselines:
    """Earlier runs by scenario."""

    of: dict[str, Findings] = field(default_factory=dict)
    allowed: dict[str, Tolerance] = field(default_factory=dict)

    def check(self, scenarios: Iterable[str]) -> None:
        """Raises UsageError naming the scenarios that have no baseline."""
        from kaput.errors import UsageError

        missing = sorted(set(scenarios) - set(self.of))
        if self.of and missing:
            known = ", ".join(self.of)
            raise UsageError(
                f"--baseline: no baseline for {', '.join(missing)}; the baselines are for {known}"
            )

    def show(self, runs: Sequence[Findings], to_stderr: bool) -> bool:
        """Prints all figures of runs with a baseline. Returns whether any is worse."""
        from kaput.printable import printable_lines
        from kaput.report.baseline import compared, lines

        worse = False
        for now in runs:
            before = self.of.get(now.run.scenario)
            if before is None:
                continue
            figures = compared(before, now, self.allowed)
            worse = worse or any(one.worse for one in figures)
            text = "\n".join(lines(before, now, figures))
            (sys.stderr if to_stderr else sys.stdout).write(f"\n{printable_lines(text)}\n")
        return worse


def read_baselines(paths: Sequence[Path] | None, tolerance: Sequence[str] | None) -> Baselines:
    """The baselines given by the options. Raises UsageError."""
    from kaput.errors import UsageError
    from kaput.evidence.findings_file import read_findings
    from kaput.report.baseline import tolerances

    if not paths:
        if tolerance:
            raise UsageError("--tolerance requires --baseline")
        return Baselines()
    found: dict[str, Findings] = {}
    for path in paths:
        findings = read_findings(path / "findings.json" if path.is_dir() else path)
        if findings.run.scenario in found:
            raise UsageError(f"--baseline {path}: {findings.run.scenario} already has a baseline")
        found[findings.run.scenario] = findings
    return Baselines(found, tolerances(tolerance or []))
