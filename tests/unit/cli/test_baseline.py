"""Runs against a baseline: what became worse, what is printed, and which status it ends with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from fakes.program import app
from kaput.cli.results import Baselines, Result, read_baselines, show
from kaput.errors import UsageError
from kaput.evidence.findings import Findings
from kaput.evidence.folder import RunFolder
from kaput.report.baseline import compared, tolerances
from unit.report.handmade_findings import anomaly, document

runner = CliRunner()


def _findings(**changed: Any) -> Findings:
    """A run with one fault; `election`, `ack_p99`, `lost` as given."""
    raw = document()
    raw["faults"][0]["election_ms"] = changed.get("election", 9_000.0)
    raw["latency_ms"]["ack"]["p99"] = changed.get("ack_p99", 50.0)
    anomaly(raw, "lost")["count"] = changed.get("lost", 0)
    return Findings.model_validate(raw)


@pytest.mark.parametrize(
    ("now", "allowed", "worse"),
    [
        ({}, [], []),
        ({"election": 10_800.0}, [], []),
        ({"election": 10_801.0}, [], ["election-ms"]),
        ({"election": 10_000.0}, ["10%"], ["election-ms"]),
        ({"election": 10_000.0}, ["10%", "election-ms=15%"], []),
        ({"election": 5.0}, ["0%"], []),
        ({"ack_p99": 150.0}, [], []),  # three times as much, but within the noise of 100 ms
        ({"ack_p99": 151.0}, [], ["ack-p99-ms"]),
        ({"ack_p99": 60.0}, ["ack-p99-ms=0%"], ["ack-p99-ms"]),
        ({"lost": 1}, [], ["lost"]),
        ({"lost": 3}, ["lost=3"], []),
        ({"lost": 4}, ["lost=3"], ["lost"]),
        ({"election": None}, [], []),
    ],
)
def test_figures_beyond_the_tolerance_are_worse(
    now: dict[str, Any], allowed: list[str], worse: list[str]
) -> None:
    """20 % and 100 ms by default; a figure's own tolerance takes precedence."""
    figures = compared(_findings(), _findings(**now), tolerances(allowed))
    assert [one.name for one in figures if one.worse] == worse


def test_figure_missing_in_the_baseline_is_not_compared() -> None:
    """There is nothing to compare it with."""
    figures = compared(_findings(election=None), _findings(), tolerances([]))
    (election,) = [one for one in figures if one.name == "election-ms"]
    assert (election.before, election.now, election.limit, election.worse) == (None, 9_000.0, None, False)


@pytest.mark.parametrize(
    ("words", "mistake"),
    [
        (["lots"], "--tolerance lots: write a share"),
        (["5"], "a number needs its figure, such as lost=5"),
        (["elektion-ms=5%"], "did you mean election-ms?"),
    ],
)
def test_invalid_tolerance_is_rejected(words: list[str], mistake: str) -> None:
    """With what may be written."""
    with pytest.raises(UsageError) as error:
        tolerances(words)
    assert mistake in str(error.value)


def _kept(folder: Path, findings: Findings) -> Path:
    folder.mkdir()
    (folder / "findings.json").write_text(findings.to_json())
    return folder


@pytest.mark.parametrize(("election", "status"), [(9_000.0, 0), (20_000.0, 1)])
def test_a_worse_figure_ends_with_1(
    election: float, status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And every figure is printed with its limit."""
    baselines = read_baselines([_kept(tmp_path / "then", _findings())], [])
    now = Result(RunFolder(tmp_path / "now"), _findings(election=election), "v")
    with pytest.raises(typer.Exit) as end:
        show([now], as_json=False, pages=False, baselines=baselines)
    assert end.value.exit_code == status
    text = capsys.readouterr().out
    line = f"election-ms: 9,000 before, {election:,.0f} now, at most 10,800{': WORSE' if status else ''}"
    assert f"  {line}\n" in text
    assert ("1 of " in text) == bool(status)


def test_comparison_goes_to_stderr_with_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The comparison goes to stderr."""
    baselines = read_baselines([_kept(tmp_path / "then", _findings())], [])
    result = Result(RunFolder(tmp_path / "now"), _findings(election=20_000.0), "v")
    with pytest.raises(typer.Exit) as end:
        show([result], as_json=True, pages=False, baselines=baselines)
    text = capsys.readouterr()
    assert end.value.exit_code == 1
    assert Findings.model_validate_json(text.out) and "WORSE" in text.err


def test_scenario_without_a_baseline_is_rejected() -> None:
    """Otherwise a run that is compared with nothing would pass."""
    baselines = Baselines({"noop": _findings()}, {})
    baselines.check(["noop"])
    with pytest.raises(UsageError, match="--baseline: no baseline for other; the baselines are for noop"):
        baselines.check(["noop", "other"])


@pytest.mark.parametrize(
    ("options", "mistake"),
    [
        (["--baseline", "nowhere.json"], "nowhere.json"),
        (["--tolerance", "5%"], "--tolerance requires --baseline"),
    ],
)
def test_invalid_options_are_rejected_before_start(options: list[str], mistake: str) -> None:
    """The message names what is wrong."""
    done = runner.invoke(app, ["run", "noop", *options])
    assert isinstance(done.exception, UsageError) and mistake in str(done.exception)


def test_exactly_the_tolerance_is_not_worse() -> None:
    """115 for 100 and 15 %: in floating point the limit is below 115."""
    assert tolerances(["election-ms=15%"])["election-ms"].limit(100) == 115
    assert tolerances(["lost=3"])["lost"].limit(4) == 7
