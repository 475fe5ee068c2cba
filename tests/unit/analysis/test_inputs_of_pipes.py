"""What pipes made of their inputs, judged on histories of a few events: what is an anomaly, and what is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from fakes.histories import History
from fakes.in_process import InProcess
from kaput.analysis.pipeline import analyse
from kaput.errors import EvidenceError
from kaput.evidence.findings import Findings
from kaput.evidence.reading import check

BILLS = {"topic": "bills", "partition": 0}


def pipe(inputs: int = 2, drained: bool = True) -> History:
    """Orders, and a group that is to make a bill of each; it is assigned the orders, and makes none yet."""
    history = History(
        topics=[{"name": "orders"}, {"name": "bills"}],
        groups={"billing": drained},
        subscriptions={"billing": ["orders"]},
        blocks={"billing": {"produces": {"topic": "bills"}}},
    )
    for seq in range(inputs):
        history.acked(0, seq, seq)
    return history.event("joined", 1, topic=None, partition=None).event("assigned", 2, 0)


def made(history: History, seq: int, offset: int, of: int) -> History:
    """A bill, made of the order at that offset."""
    return history.acked(1, seq, offset, **BILLS).output(1, seq, of)


def judged(history: History, path: Path) -> Findings:
    """The findings."""
    return analyse(check(history.read_to_end().write(path)), InProcess())  # type: ignore[arg-type]


def counts(findings: Findings) -> dict[str, int]:
    """Every anomaly that there is."""
    return {a.name: a.count for a in findings.anomalies if a.count}


def test_a_pipe_without_any_output_has_processed_nothing(tmp_path: Path) -> None:
    """That it is one the scenario says."""
    history = pipe().handed(0, 0, 0, 10).handed(1, 0, 1, 11)
    findings = judged(history, tmp_path)
    assert counts(findings) == {"unprocessed": 2}
    assert findings.verdict == "violated"


def test_a_pipe_that_was_not_drained_may_still_process_it(tmp_path: Path) -> None:
    """Inconclusive, without any output, too."""
    findings = judged(pipe(drained=False).handed(0, 0, 0, 10).handed(1, 0, 1, 11), tmp_path)
    assert counts(findings) == {}
    assert findings.verdict == "inconclusive"


def test_a_row_of_outputs_that_is_there_twice_is_malformed(tmp_path: Path) -> None:
    """It would have been an input with two outputs, which it has not."""
    history = made(made(pipe(), 0, 0, 0), 1, 1, 1).handed(0, 0, 0, 10).handed(1, 0, 1, 11)
    assert counts(judged(history, tmp_path / "once")) == {}
    history.rows["end_offsets"].clear()
    with pytest.raises(
        EvidenceError, match="outputs: message 1 of producer 1 has 2 rows with the same input"
    ):
        judged(history.output(1, 1, 1), tmp_path / "twice")
