"""What `kaput demo` prints: a table that fits on a screen, and a sentence that is true for these runs."""

from __future__ import annotations

from typing import Any

from kaput.cli.demo import learned, summary
from kaput.evidence.findings import Findings
from kaput.report.comparison import Entry
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
