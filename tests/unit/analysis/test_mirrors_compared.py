"""compare/*.json of a run folder: what becomes of it in findings, verdict and report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fakes.histories import History
from fakes.judging import findings_in
from fakes.mirror_histories import sent_and_mirrored, two_clusters
from kaput.errors import EvidenceError
from kaput.evidence.findings import Findings
from kaput.report.run_report import to_text

ROWS = [
    {"what": "topic orders", "aspect": "records", "status": "lost"},
    {"what": "topic orders", "aspect": "offsets", "status": "differs by design"},
    {"what": "group billing", "aspect": "position", "status": "lost"},
]


def _answer(**changes: Any) -> str:
    told = {"schema": "kaput.compare/1", "source": "dc1", "target": "dc2", "status": "lost", "rows": ROWS}
    return json.dumps(told | changes)


def _judged(path: Path, answer: str | None, history: History | None = None) -> tuple[Findings, str]:
    """Three messages, all mirrored, unless given."""
    history = history or sent_and_mirrored(two_clusters(), 0, 1, 2)
    history.expect = {"mirror": "identical"}
    folder = history.read_to_end().write(path)
    if answer is not None:
        (path / "compare").mkdir()
        (path / "compare" / "dc1-dc2.json").write_text(answer)
    findings = findings_in(folder)
    return findings, to_text(findings, path).plain


def test_lost_rows_violate_the_mirror_expectation(tmp_path: Path) -> None:
    """Its rows are named in the reason, in the findings, and in the report."""
    findings, text = _judged(tmp_path, _answer())
    assert findings.verdict == "violated" and findings.promise == "held"
    rows = ["topic orders, records", "group billing, position"]
    told = f"2 rows lost: {'; '.join(rows)}"
    assert f"Your expectation mirror: identical was not met (dc1->dc2: {told})." in findings.reasons
    (mirror,) = findings.mirrors
    assert mirror.compared is not None
    assert (mirror.compared.status, mirror.compared.lost) == ("lost", rows)
    assert "dc1->dc2 compared record by record: lost: topic orders, records;" in " ".join(text.split())


def test_difference_by_design_meets_the_expectation(tmp_path: Path) -> None:
    """A mirror promises no more."""
    findings, text = _judged(tmp_path, _answer(status="differs by design", rows=ROWS[1:2]))
    assert findings.verdict == "held" and findings.expectations[0].found == "differs by design"
    assert "nothing is lost, but it differs by design" in text


@pytest.mark.parametrize("answer", [None, _answer(source="dc1-x", target="c2")])
def test_mirror_without_a_comparison_is_inconclusive(tmp_path: Path, answer: str | None) -> None:
    """That of clusters whose names only look the same is none."""
    findings, text = _judged(tmp_path, answer)
    assert findings.verdict == "inconclusive" and findings.mirrors[0].compared is None
    assert "(not measured: dc1->dc2 was not compared)" in findings.reasons[0]
    assert "record by record" not in text


def test_reason_for_a_missing_comparison_is_reported(tmp_path: Path) -> None:
    """It is the runner's own sentence."""
    findings, text = _judged(tmp_path, _answer(status=None, rows=[], notes=["dc1 cannot be reached"]))
    assert findings.verdict == "inconclusive"
    assert "dc1->dc2 was not compared (dc1 cannot be reached)" in findings.reasons[0]
    assert "dc1->dc2 could not be compared: dc1 cannot be reached" in text


def test_a_mirror_that_was_stopped_is_not_compared(tmp_path: Path) -> None:
    """A note says so, and the expectation is not known to be met."""
    history = sent_and_mirrored(two_clusters(), 0, 1, 2).mirrored("started", 0).mirrored("stopped", 5)
    findings, _ = _judged(tmp_path, None, history)
    assert findings.verdict == "inconclusive"
    assert "Mirror dc1->dc2 was not compared: it had been stopped." in findings.notes
    assert "(not measured: no mirror ran in the end)" in findings.reasons[0]


@pytest.mark.parametrize("answer", ["{", _answer(status="fine"), _answer(schema="kaput.compare/2")])
def test_malformed_comparison_file_is_rejected(tmp_path: Path, answer: str) -> None:
    with pytest.raises(EvidenceError, match=r"compare/dc1-dc2\.json: "):
        _judged(tmp_path, answer)
