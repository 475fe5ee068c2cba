"""What `kaput demo` prints: a table that fits on a screen, and a sentence that is true for these runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kaput.cli.demo import learned, summary
from kaput.evidence.findings import Findings
from kaput.evidence.folder import RunFolder
from kaput.report.comparison import Entry
from kaput.report.comparison_report import to_html
from unit.report.handmade_findings import document


def _findings(lost: int, verdict: str = "held", **causes: int) -> Findings:
    whole: dict[str, Any] = document()
    (found,) = [each for each in whole["anomalies"] if each["name"] == "lost"]
    found |= {"count": lost, "permitted": lost, "causes": causes}
    return Findings.model_validate(whole | {"verdict": verdict, "reasons": ["No message was sent."]})


def _entry(name: str, findings: Findings) -> Entry:
    return Entry(name, name, name, {}, findings)


def test_summary_fits_on_a_terminal_of_80_columns_and_24_lines() -> None:
    """With the address of the page below it, and the prompt."""
    lines = summary([_entry("one", _findings(23)), _entry("two", _findings(0))]).splitlines()
    assert len(lines) <= 22 and max(map(len, lines)) <= 80


def test_sentence_has_the_counts_of_both_runs() -> None:
    text = learned(_findings(23, **{"deposed-leader": 23}), _findings(0))
    assert text.startswith(
        "With acks=1, 23 of 39,997 acknowledged messages are lost (acknowledged by a leader that was then "
        "deposed), with acks=all none of 39,997; nothing was acknowledged for "
    )


def test_cause_is_named_only_if_all_losses_have_it() -> None:
    assert "are lost, with acks=all" in learned(
        _findings(23, **{"deposed-leader": 22, "acks-0": 1}), _findings(0)
    )


def test_nothing_is_learned_from_an_inconclusive_run() -> None:
    text = learned(_findings(23), _findings(0, "inconclusive"))
    assert text == "Not known: the run with acks=all is inconclusive: No message was sent."


def _slow(standstills: int) -> Findings:
    """A run whose load fell short, with that many standstills."""
    share = {
        "load_s": 30.0, "standstill_s": 16.8, "standstills": standstills, "longest_standstill_ms": 11_100.0,
        "messages": 9, "within_1s": 3, "within_1s_share": 0.3,
    }  # fmt: skip
    figures = {"asked_per_s": 2000.0, "sent_per_s": 2000.0, "reached_per_s": 677.0}
    claims = [{"kind": "load", "from_ns": 1, "to_ns": 9_000_000_001, "figures": figures}]
    return Findings.model_validate(document() | {"availability": [share], "claims": claims})


def test_the_longest_of_several_standstills_is_not_their_sum() -> None:
    text = learned(_slow(5), _slow(1))
    assert text.endswith(
        "nothing was acknowledged for up to 11.1 s at a time with acks=1, and for 11.1 s with acks=all."
    )


def test_a_load_that_fell_short_is_in_the_summary_and_on_the_page(tmp_path: Path) -> None:
    """As in the reports of both runs; the page has the demo's sentence at its top."""
    entries = [_entry("one", _slow(5)), _entry("two", _slow(1))]
    text = " ".join(summary(entries).split())
    assert "With acks=1: Acknowledgements fell behind the load before the first fault: 677 of 2,000" in text
    pairs = [(RunFolder(tmp_path), _slow(5)), (RunFolder(tmp_path), _slow(1))]
    top, _, _ = to_html(pairs, entries, answer=learned(_slow(5), _slow(1))).partition("</header>")
    assert "With acks=1, " in top and top.count("Acknowledgements fell behind the load") == 2
