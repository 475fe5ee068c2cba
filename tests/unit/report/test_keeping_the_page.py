"""report.html next to the findings: written where it can be, a sentence where not, never a failure."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kaput.api.judging import has_report
from kaput.cli.results import keep_report
from kaput.errors import BrokerError, Interrupted
from kaput.evidence.findings import Findings
from kaput.evidence.folder import RunFolder


@pytest.fixture
def folder(tmp_path: Path, findings: Findings) -> RunFolder:
    """A run folder that holds findings.json alone."""
    (tmp_path / "findings.json").write_text(findings.to_json() + "\n")
    return RunFolder(tmp_path)


def test_page_is_rewritten_only_for_new_findings(folder: RunFolder, findings: Findings) -> None:
    """And again after they were."""
    assert not has_report(folder)
    keep_report(folder, findings)
    assert has_report(folder)
    assert (folder.path / "report.html").read_text().startswith("<!doctype html>")
    later = (folder.path / "report.html").stat().st_mtime_ns + 10**9
    os.utime(folder.findings_path, ns=(later, later))
    assert not has_report(folder)


def test_unwritable_report_html_is_a_warning(
    folder: RunFolder, findings: Findings, capsys: pytest.CaptureFixture[str]
) -> None:
    """A directory of its name; nothing is raised, nothing is left next to it."""
    (folder.path / "report.html").mkdir()
    keep_report(folder, findings)
    assert "report.html cannot be written (Is a directory)" in capsys.readouterr().err
    assert sorted(path.name for path in folder.path.iterdir()) == ["findings.json", "report.html"]


def test_unencodable_findings_are_a_warning(
    folder: RunFolder, findings: Findings, capsys: pytest.CaptureFixture[str]
) -> None:
    """Half of a character, of which no file can be made."""
    broken = findings.model_copy(update={"reasons": ["\ud800"]})
    keep_report(folder, broken)
    said = capsys.readouterr().err
    assert "report.html cannot be created (UnicodeEncodeError:" in said and said.count("\n") == 1
    assert [path.name for path in folder.path.iterdir()] == ["findings.json"]


@pytest.mark.parametrize("error", [Interrupted("SIGINT"), BrokerError("died")])
def test_only_keyboard_interrupt_propagates(folder: RunFolder, error: Exception) -> None:
    """Ctrl-C while the page is made ends the program as it does at any other moment."""

    class Failing:
        """Findings whatever is asked of which fails."""

        def __getattr__(self, name: str) -> None:
            raise error

    if isinstance(error, Interrupted):
        with pytest.raises(Interrupted):
            keep_report(folder, Failing())  # type: ignore[arg-type]
    else:
        keep_report(folder, Failing())  # type: ignore[arg-type]
