"""What reports say of transactions, and that they say nothing where there were none."""

from __future__ import annotations

from pathlib import Path

from fakes.histories import History
from fakes.in_process import InProcess
from kaput.analysis.pipeline import analyse
from kaput.evidence.findings import Findings
from kaput.evidence.reading import check
from kaput.report.run_report import to_html, to_text
from kaput.report.sections.fates import fates_table
from kaput.report.sections.transactions import transaction_sentences


def _judged(history: History, path: Path) -> tuple[Findings, str, str]:
    folder = history.read_to_end().write(path)
    findings = analyse(check(folder), InProcess())  # type: ignore[arg-type]
    return findings, to_text(findings, path).plain, to_html(folder, findings)


def test_transaction_outcomes_and_longest_lso_stall_are_shown(tmp_path: Path) -> None:
    """On the screen and on the page; what never committed is a column of its own among the fates."""
    history = History().acked(0, 0, 0).transaction(0, 0, 0).hidden(0, 1, 2).transaction(1, 1, 1, "aborted")
    history.stable(2, 3, 100).stable(2, 3, 1_350).stable(4, 4, 1_600)
    findings, text, page = _judged(history, tmp_path)
    said = [
        "2 transactions of 2 messages: 1 committed, 1 aborted, 0 of unknown outcome; 1 message not committed",
        "readers with read_committed waited up to 1,250 ms for the last stable offset of orders/0 (sampled)",
    ]
    assert transaction_sentences(findings) == said
    assert all(sentence in text and sentence in page for sentence in said)
    assert fates_table(findings).header[-2] == "not committed"
    assert all("The fates add up to the" in shown for shown in (text, page))
    assert "not committed" in text and "not committed</th>" in page


def test_run_without_transactions_has_no_transaction_section(tmp_path: Path) -> None:
    """Neither a section nor a column."""
    findings, text, page = _judged(History().acked(0, 0, 0), tmp_path)
    assert transaction_sentences(findings) == []
    assert "Transactions\n" not in text and "<h2>Transactions</h2>" not in page
    assert "not committed" not in fates_table(findings).header
