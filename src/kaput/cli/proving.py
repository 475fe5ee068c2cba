"""`kaput doctor --prove`: what was found, tried on a scratch cluster, and tried again with the remedy."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from kaput.cli.choosing import Choice
    from kaput.cli.series import Series
    from kaput.operate.doctor.diagnosis import Finding
    from kaput.operate.doctor.proving import Pair
    from kaput.operate.doctor.survey import Survey

NOT_SHOWN = 3


def prove(
    ids: Sequence[str],
    survey: Survey | None,
    findings: Sequence[Finding],
    runs: Path,
    json: bool,
) -> int:
    """Plays the experiments for these checks, or for all that were found; the exit status.

    0: each shows what was to be shown; 3: one does not, or there is none. Raises UsageError, LabError.
    """
    from kaput.cli.choosing import Choice
    from kaput.cli.run import run_all
    from kaput.cli.showing import show_series
    from kaput.operate.doctor.proving import EXPERIMENTS, NO_EXPERIMENT, pair

    wanted = list(dict.fromkeys(ids or [finding.id for finding in findings]))
    _check(wanted)
    for number in wanted:
        if number in NO_EXPERIMENT:
            typer.echo(f"{number}: there is no experiment: {NO_EXPERIMENT[number]}", err=True)
    first = {finding.id: finding.resource for finding in reversed(findings)}
    pairs = [pair(number, survey, first.get(number)) for number in wanted if number in EXPERIMENTS]
    if not pairs:
        typer.echo("nothing to prove", err=True)
        return NOT_SHOWN
    choices: list[Choice] = []
    for each in pairs:
        of = f"the settings of {each.resource}" if each.resource else "settings of its own"
        typer.echo(f"{each.id}: {each.as_it_is.title} ({of})", err=True)
        choices += [
            Choice(f"{each.id}-as-it-is", each.as_it_is, f"{each.id} as it is"),
            Choice(f"{each.id}-remedy", each.with_remedy, f"{each.id} with the remedy"),
        ]
    with run_all(choices, None, 1, runs) as series:
        # What that ends with is about verdicts; here it is about the proof.
        with suppress(typer.Exit):
            show_series(series, json, as_list=True)
        return _said(pairs, series, json)


def _check(ids: Sequence[str]) -> None:
    from kaput.errors import UsageError
    from kaput.operate.doctor.checks import CHECKS
    from kaput.scenario.nearest import hint

    known = [check.id for check in CHECKS]
    for number in ids:
        if number not in known:
            raise UsageError(f"{number} is no check of the doctor's; {hint(number, known)}")


def _said(pairs: Sequence[Pair], series: Series, json: bool) -> int:
    """A sentence for each pair. Raises LabError where a run of it failed."""
    from kaput.errors import LabError
    from kaput.operate.doctor.proving import shown
    from kaput.report.layout import number

    by_name = {result.findings.run.scenario: result.findings for result in series.results}
    status = 0
    for each in pairs:
        bad, good = by_name.get(f"{each.id}-as-it-is"), by_name.get(f"{each.id}-remedy")
        if bad is None or good is None:
            raise LabError(f"{each.id}: the experiment failed, so nothing is proven")
        proven = shown(each.figure, bad, good)
        said = "proven" if proven else "not shown this time"
        figures = f"{number(each.figure.of(bad))} as it is, {number(each.figure.of(good))} with the remedy"
        typer.echo(f"{each.id} {said}: {each.figure.name}: {figures}", err=json)
        status = status if proven else NOT_SHOWN
    return status
