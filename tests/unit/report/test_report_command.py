"""`kaput report` on a run folder, as a user calls it."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest
from junitparser import JUnitXml
from typer.testing import CliRunner

from fakes.called import called
from fakes.program import app
from kaput.errors import UsageError
from kaput.evidence.findings import Findings
from kaput.evidence.folder import Manifest
from kaput.report.sections import JudgedRun
from kaput.report.sections.rerun import rerun
from waiting import PATIENCE_S

runner = CliRunner()


@pytest.fixture
def run_dir(tmp_path: Path, findings: Findings) -> Path:
    """A run folder that holds findings.json and nothing else."""
    (tmp_path / "findings.json").write_text(findings.to_json() + "\n")
    return tmp_path


def test_text_in_a_pipe_is_plain(run_dir: Path) -> None:
    """No escape codes, no wrapped lines; the verdict first and the folder last."""
    kaput = Path(sys.executable).with_name("kaput")
    done = subprocess.run(
        [kaput, "report", run_dir], capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("HELD, with permitted loss: 40,000 sent") and lines[0].endswith(".")
    assert lines[-1] == f"Run folder: {run_dir}"
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize("option", [["--format", "json"], ["--json"]])
def test_json_output_equals_findings_json(run_dir: Path, option: list[str]) -> None:
    """One JSON document, that of findings.json."""
    result = runner.invoke(app, ["report", str(run_dir), *option])
    assert result.exit_code == 0
    assert json.loads(result.stdout) == json.loads((run_dir / "findings.json").read_text())


def test_missing_run_folder_error_suggests_the_nearest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In runs/, where kaput run puts it, or one with nearly the same name; for `kaput analyze` likewise."""
    (tmp_path / "runs" / "20261123T1200-noop").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    for given, meant in (
        ("20261123T1200-noop", "; did you mean runs/20261123T1200-noop?"),
        ("runs/20261123T1200-nop", "; did you mean runs/20261123T1200-noop?"),
        ("nosuchrun", "; kaput run makes them"),
    ):
        for verb in ("report", "analyze"):
            result = runner.invoke(app, [verb, given])
            assert str(result.exception) == f"{given}: no such run folder{meant}"
            assert result.exception.exit_status == 2  # type: ignore[union-attr]


def test_junit_can_be_parsed(run_dir: Path) -> None:
    """XML with one suite on stdout."""
    result = runner.invoke(app, ["report", str(run_dir), "--format", "junit"])
    assert result.exit_code == 0
    assert len(JUnitXml.fromstring(result.stdout)) == 1


def test_page_without_analysis_folder_has_no_timeline(run_dir: Path) -> None:
    """Without analysis/ there is no timeline, and everything else."""
    result = runner.invoke(app, ["report", str(run_dir), "--format", "html"])
    assert result.exit_code == 0, result.exception
    assert result.stdout.startswith("<!doctype html>") and "HELD, with permitted loss" in result.stdout
    assert "No timeline" in result.stdout


def test_image_without_timeline_data_suggests_analyze(run_dir: Path) -> None:
    """The user's mistake, with what makes one."""
    result = runner.invoke(app, ["report", str(run_dir), "--format", "svg"])
    assert isinstance(result.exception, UsageError)
    assert f"kaput analyze {run_dir}" in str(result.exception) and result.exception.exit_status == 2


def test_markdown_has_verdict_tables_and_command(run_dir: Path) -> None:
    """To be pasted: a heading, tables, the command."""
    result = runner.invoke(app, ["report", str(run_dir), "--format", "markdown"])
    assert result.exit_code == 0, result.exception
    lines = result.stdout.splitlines()
    assert lines[0] == "### HELD, with permitted loss: leader-kill-lagging-acks-1"
    assert "| sum | 23 | 39,970 | 7 | 40,000 |" in lines
    assert "kaput run leader-kill-lagging-acks-1 --seed 7" in lines


def test_run_on_an_existing_cluster_is_repeated_there(raw: dict[str, Any]) -> None:
    """And not on one that kaput would start: of those it knows the Java."""
    findings = Findings.model_validate(raw)
    known = {"run_id": uuid.UUID(int=1), "scenario": "noop", "seed": 7, "state": "sealed", "started_ns": 1}
    own, there = (Manifest(**known, versions={"kafka": "4.4", **java}) for java in ({"java": "17"}, {}))
    texts = ["".join(map(str, rerun(JudgedRun(findings, None, each)).blocks)) for each in (own, there)]
    assert ["--bootstrap-servers HOST:PORT --seed 7" in text for text in texts] == [False, True]


def test_several_runs_are_one_table(tmp_path: Path, raw: dict[str, Any]) -> None:
    """As text, Markdown and a list of JSON; repetitions are those of one resolved scenario."""
    paths = []
    for number, acks in enumerate(("all", "1", "1")):
        raw["run"] |= {"id": str(number), "varied": {"workload.producers.0.acks": acks}}
        path = tmp_path / f"run-{number}"
        path.mkdir()
        (path / "findings.json").write_text(Findings.model_validate(raw).to_json())
        (path / "scenario.yaml").write_text(f"acks: {acks}")
        paths.append(str(path))
    text = runner.invoke(app, ["report", *paths[:2]]).stdout.splitlines()
    assert [line.split() for line in text[1:4]] == [["acks", "verdict"], ["all", "held"], ["1", "held"]]
    text = runner.invoke(app, ["report", *paths]).stdout.splitlines()
    assert [line.split() for line in text[1:4]] == [
        ["acks", "verdict", "runs"],
        ["all", "held", "1"],
        ["1", "2", "held", "2"],
    ]
    markdown = runner.invoke(app, ["report", *paths, "--format", "markdown"]).stdout
    assert "| acks | verdict | runs |" in markdown
    found = json.loads(runner.invoke(app, ["report", *paths, "--format", "json"]).stdout)
    assert [each["run"]["id"] for each in found] == ["0", "1", "2"]


def test_runs_that_cannot_be_compared_are_named(tmp_path: Path, run_dir: Path) -> None:
    """The same one twice, and one that was not judged."""
    unjudged(tmp_path / "none")
    result = runner.invoke(app, ["report", str(run_dir), str(run_dir), str(tmp_path / "none")])
    assert isinstance(result.exception, UsageError)
    first, second = str(result.exception).splitlines()
    assert first == f"{run_dir}: the same run as {run_dir}" and "no findings yet" in second


def unjudged(path: Path) -> Path:
    """A run folder without findings."""
    path.mkdir(exist_ok=True)
    (path / "manifest.json").write_text("{}")
    return path


def test_of_several_the_judged_ones_are_reported(
    tmp_path: Path, run_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`runs/*` also has a watch that was not judged, and matrix/; a folder that is missing is a mistake."""
    watch, matrix = unjudged(tmp_path / "watch"), tmp_path / "matrix"
    matrix.mkdir()
    named = ["report", *map(str, (watch, run_dir, matrix))]
    text = called(named, monkeypatch, capsys)
    assert text.status == 0 and "held" in text.stdout and run_dir.name in text.stdout
    first, second = text.stderr.splitlines()
    assert (
        first == f"kaput: left out: {watch}/findings.json: no findings yet; run `kaput analyze {watch}` first"
    )
    assert second.startswith(f"kaput: left out: {matrix}: not a run folder")
    assert len(json.loads(called([*named, "--json"], monkeypatch, capsys).stdout)) == 1
    assert called([*named, "nowhere"], monkeypatch, capsys).status == 2
    none = called(["report", str(watch), str(matrix)], monkeypatch, capsys)
    assert (none.status, none.stdout, len(none.stderr.splitlines())) == (2, "", 2)


def test_report_of_an_unanalyzed_run_suggests_analyze(tmp_path: Path) -> None:
    """Without findings.json the message says what makes it."""
    unjudged(tmp_path)
    result = runner.invoke(app, ["report", str(tmp_path)])
    assert isinstance(result.exception, UsageError)
    assert f"kaput analyze {tmp_path}" in str(result.exception)
