"""Several runs one after the other: what ends them all, and what one alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from handmade_findings import document

from kaput.cli.options import TableOptions
from kaput.cli.results import PlannedRun, Series, exit_status, play, show_series
from kaput.cli.run_scenarios import _plans
from kaput.cli.scenario_choice import choose
from kaput.errors import BrokerError, DistributionError, Interrupted, JavaError
from kaput.evidence.findings import Findings
from kaput.evidence.folder import RunFolder

KAFKA = "cluster.kafka=4.1.0,4.3.1"


def plans(vary: str = "title=a,b,c", repeat: int = 1) -> list[PlannedRun]:
    return _plans(choose(["noop"], [], [], [vary]), 7, repeat, Path("runs"), None)


def played(outcomes: list[str | BaseException], vary: str = "title=a,b,c") -> Series:
    """The series of runs that end with these verdicts, or fail like this."""
    left = iter(outcomes)

    def run_one(plan: PlannedRun) -> tuple[RunFolder, Findings]:
        outcome = next(left)
        if isinstance(outcome, BaseException):
            raise outcome
        found = document() | {"verdict": outcome}
        found["run"] |= {"varied": dict(plan.varied), "scenario": plan.name}
        return RunFolder(Path("runs/x")), Findings.model_validate(found)

    return play(plans(vary), run_one)


def test_repetitions_of_variants_are_interleaved() -> None:
    """Every value once, then every value again: with the same seeds."""
    found = plans("title=a,b", repeat=2)
    assert [(plan.title, plan.label, plan.variant, plan.seed) for plan in found] == [
        ("noop title=a (1 of 2)", "noop 1/4", "0", 7),
        ("noop title=b (1 of 2)", "noop 2/4", "1", 7),
        ("noop title=a (2 of 2)", "noop 3/4", "0", 8),
        ("noop title=b (2 of 2)", "noop 4/4", "1", 8),
    ]


def test_progress_line_names_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    played(["held", "held", "held"])
    said = [f"run {number} of 3: noop title={value}" for number, value in enumerate("abc", 1)]
    assert capsys.readouterr().err.splitlines() == said


def test_lab_failure_in_one_run_does_not_stop_the_series(capsys: pytest.CaptureFixture[str]) -> None:
    """It is reported, has a line in the table, and its status is worse than inconclusive."""
    series = played(["inconclusive", BrokerError("broker 1 died"), "held"])
    assert len(series.results) == 2 and [plan.title for plan in series.failed] == ["noop title=b"]
    with pytest.raises(typer.Exit) as ended:
        show_series(series, as_json=False, as_list=True)
    assert ended.value.exit_code == 4
    said = capsys.readouterr()
    assert "kaput: run 2 of 3 failed: broker 1 died" in said.err
    lines = said.out.splitlines()
    table = [line.split()[:2] for line in lines[lines.index("Runs of noop") + 2 :]]
    assert table[:3] == [["a", "inconclusive"], ["c", "held"], ["b", "failed"]]


@pytest.mark.parametrize(
    ("error", "vary", "tried"),
    [
        (JavaError("none"), "title=a,b,c", 0),
        (DistributionError("no jars"), "title=a,b,c", 0),
        (DistributionError("no jars"), KAFKA, 1),
        (OSError(28, "No space left on device"), "title=a,b,c", 0),
    ],
)
def test_error_common_to_all_runs_ends_the_series(error: Exception, vary: str, tried: int) -> None:
    """Jars of one version that cannot be had fail the runs of that version."""
    series = played([error, "held", "held"], vary)
    assert len(series.results) == tried
    assert series.ended is (None if tried else error)


def test_single_run_fails_with_its_own_error() -> None:
    """With its own error, and nothing on stdout."""
    series = played([BrokerError("died")], "title=a")
    with pytest.raises(BrokerError):
        show_series(series, as_json=True, as_list=False)


@pytest.mark.parametrize("finished", [0, 2])
def test_interrupted_series_reports_its_finished_runs(
    finished: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """And ends as interrupted; the list of JSON has what there is."""
    series = played([*["held"] * finished, Interrupted("SIGINT"), "held"])
    with pytest.raises(Interrupted):
        show_series(series, as_json=False, as_list=True)
    text = capsys.readouterr().out
    assert ("Runs of noop" in text) is (finished == 2) and text.count("HELD") == finished
    with pytest.raises(Interrupted):
        show_series(series, as_json=True, as_list=True)
    found = json.loads(capsys.readouterr().out)
    assert [run["run"]["varied"] for run in found] == [{"title": title} for title in "ab"[:finished]]


def shown(capsys: pytest.CaptureFixture[str], printed: TableOptions, pages: bool = True) -> str:
    """What is printed of a run that lost messages, one that is inconclusive, and one that failed."""
    series = played(["held", "inconclusive", BrokerError("broker 1 died")])
    with pytest.raises(typer.Exit):
        show_series(series, as_json=False, as_list=True, pages=pages, printed=printed)
    return capsys.readouterr().out


def test_several_runs_end_with_a_table_and_their_paths(capsys: pytest.CaptureFixture[str]) -> None:
    """The headline of each run that did not plainly hold, and where the reports are; not the reports."""
    text = shown(capsys, TableOptions(reports=False))
    lines = text.splitlines()
    assert lines[0] == "Runs of noop" and len(lines) < 20 and "Fates" not in text
    assert "  - title a: HELD, with permitted loss: 40,000 sent" in text
    assert "  - title b: INCONCLUSIVE: 40,000 sent" in text
    assert [line.split() for line in lines[lines.index("Reports") + 2 :] if line] == [
        ["title", "a", "runs/x/report.html"],
        ["title", "b", "runs/x/report.html"],
    ]


def test_series_without_html_lists_run_folders(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, TableOptions(reports=False), pages=False).splitlines()
    assert lines[lines.index("Reports") + 2].split() == ["title", "a", "runs/x"]


def test_series_prints_all_reports_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    """Each, then the table, and nothing twice."""
    text = shown(capsys, TableOptions(reports=True))
    assert text.startswith("HELD, with permitted loss: ") and text.count("Run folder: runs/x") == 2
    assert text.index("Run folder") < text.index("Runs of noop") and "Reports" not in text
    assert text.count("INCONCLUSIVE: ") == 1


def test_series_table_has_the_requested_columns(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, TableOptions(("sent", "verdict"), reports=False)).splitlines()
    assert [line.split() for line in lines[1:5]] == [
        ["title", "sent", "verdict"],
        ["a", "40,000", "held"],
        ["b", "40,000", "inconclusive"],
        ["c", "-", "failed"],
    ]


@pytest.mark.parametrize(
    ("verdicts", "failed", "status"),
    [
        (["held", "held"], False, 0),
        (["held", "inconclusive"], False, 3),
        (["held", "inconclusive", "violated"], False, 1),
        (["inconclusive"], True, 4),
        (["violated"], True, 1),
        ([], True, 4),
    ],
)
def test_exit_status_is_that_of_the_worst_run(verdicts: list[str], failed: bool, status: int) -> None:
    """violated, then failed, then inconclusive, then held."""
    assert exit_status(verdicts, failed) == status
