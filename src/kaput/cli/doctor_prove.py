"""`kaput doctor --prove`: reproduces findings on a scratch cluster, without and with the fix."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from kaput.cli.scenario_choice import Choice
    from kaput.cli.series import Series
    from kaput.operate.doctor.diagnosis import Finding
    from kaput.operate.doctor.experiments import Pair
    from kaput.operate.doctor.snapshot import Snapshot

NOT_SHOWN = 3


def prove(
    ids: Sequence[str],
    snapshot: Snapshot | None,
    findings: Sequence[Finding],
    runs: Path,
    json: bool,
) -> int:
    """Runs the experiments of these checks, or of all findings; returns the exit status.

    0: every experiment confirms its finding; 3: one does not, or there is none. Raises UsageError, LabError.
    """
    from kaput.cli.results import show_series
    from kaput.cli.run_scenarios import run_all
    from kaput.cli.scenario_choice import Choice
    from kaput.operate.doctor.experiments import EXPERIMENTS, NO_EXPERIMENT, pair

    wanted = list(dict.fromkeys(ids or [finding.id for finding in findings]))
    _check(wanted)
    for number in wanted:
        if number in NO_EXPERIMENT:
            typer.echo(f"{number}: no experiment: {NO_EXPERIMENT[number]}", err=True)
    first = {finding.id: finding.resource for finding in reversed(findings)}
    pairs = [pair(number, snapshot, first.get(number)) for number in wanted if number in EXPERIMENTS]
    if not pairs:
        typer.echo("nothing to reproduce", err=True)
        return NOT_SHOWN
    choices: list[Choice] = []
    for each in pairs:
        of = f"with the settings of {each.resource}" if each.resource else "with its own settings"
        typer.echo(f"{each.id}: {each.without_fix.title} ({of})", err=True)
        choices += [
            Choice(f"{each.id}-as-it-is", each.without_fix, f"{each.id} as it is"),
            Choice(f"{each.id}-remedy", each.with_fix, f"{each.id} with the fix"),
        ]
    with run_all(choices, None, 1, runs) as series:
        # Ignores the exit status of the verdicts: here the comparison decides.
        with suppress(typer.Exit):
            show_series(series, json, as_list=True)
        return _conclude(pairs, series, json)


def _check(ids: Sequence[str]) -> None:
    from kaput.errors import UsageError
    from kaput.operate.doctor.checks import CHECKS
    from kaput.scenario.nearest import hint

    known = [check.id for check in CHECKS]
    for number in ids:
        if number not in known:
            raise UsageError(f"no check {number}; {hint(number, known)}")


def _conclude(pairs: Sequence[Pair], series: Series, json: bool) -> int:
    """Prints a sentence for each pair. Raises LabError if one of its runs failed."""
    from kaput.errors import LabError
    from kaput.operate.doctor.experiments import fix_helps
    from kaput.report.document import number

    by_name = {result.findings.run.scenario: result.findings for result in series.results}
    status = 0
    for each in pairs:
        bad, good = by_name.get(f"{each.id}-as-it-is"), by_name.get(f"{each.id}-remedy")
        if bad is None or good is None:
            raise LabError(f"{each.id}: the experiment failed, so nothing is confirmed")
        proven = fix_helps(each.figure, bad, good)
        result = "confirmed" if proven else "not reproduced this time"
        figures = f"{number(each.figure.of(bad))} as it is, {number(each.figure.of(good))} with the fix"
        typer.echo(f"{each.id} {result}: {each.figure.name}: {figures}", err=json)
        status = status if proven else NOT_SHOWN
    return status
