"""Sides compared by pairs: what is a regression, and what is not."""

from __future__ import annotations

from typing import Any

import pytest
from handmade_findings import anomaly, document

from kaput.evidence.findings import Findings
from kaput.report import regression_report
from kaput.report.regression_report import Runs, Sides
from kaput.report.render import html, markdown, terminal


def run(lost: int = 0, election: float = 9000.0, acked: float = 2000.0, verdict: str = "held") -> Findings:
    """One run with these figures."""
    raw: dict[str, Any] = document()
    anomaly(raw, "lost")["count"] = lost
    raw["faults"][0]["election_ms"], raw["rates"]["acked_per_s"], raw["verdict"] = election, acked, verdict
    return Findings.model_validate(raw)


def runs(found: list[Findings]) -> Runs:
    return {seed: (f"run-{seed}", one) for seed, one in enumerate(found, 1)}


def sides(before: list[Findings], now: list[Findings]) -> Sides:
    """One scenario on two versions."""
    return Sides(["4.0.2", "4.3.1"], {"crash": {"4.0.2": runs(before), "4.3.1": runs(now)}})


def verdicts(found: Sides) -> dict[str, str]:
    return {each.figure: each.verdict for each in found.differences()}


def test_a_loss_in_every_pair_is_a_regression() -> None:
    """Twelve pairs; figures that are the same in all are not compared at all."""
    found = sides([run(0)] * 12, [run(5 + at) for at in range(12)])
    assert verdicts(found) == {"lost": "worse"}
    text = terminal.render(regression_report.document(found, "kaput regress")).plain
    assert "1 regression against 4.0.2" in text and "crash, lost: 4.3.1 is worse" in text
    assert "run-1 run-2" in text


def test_three_pairs_are_too_few_for_a_regression() -> None:
    """Chance does the same in one of four times."""
    found = sides([run(0)] * 3, [run(5)] * 3)
    assert verdicts(found) == {"lost": ""}
    text = terminal.render(regression_report.document(found, "kaput regress")).plain
    assert (
        "0 regressions" in text
        and "with fewer than 6 pairs, not even a change in every pair is significant" in text
    )


def test_small_significant_difference_is_no_regression() -> None:
    """2 % of an election."""
    found = sides([run(election=9000.0)] * 12, [run(election=9180.0)] * 12)
    assert verdicts(found) == {"election ms": ""}
    assert found.differences()[0].p < 0.05


def test_lower_acked_rate_is_worse() -> None:
    """Of all figures the one where less is worse."""
    found = sides([run(acked=2000.0)] * 12, [run(acked=1500.0)] * 12)
    assert verdicts(found) == {"acked per s": "worse"}
    assert verdicts(sides([run(acked=1500.0)] * 12, [run(acked=2000.0)] * 12)) == {"acked per s": "better"}


def test_holm_correction_requires_more_pairs_for_more_figures() -> None:
    """Six pairs show one difference among one, and not among two (Holm)."""
    assert verdicts(sides([run(0)] * 6, [run(5)] * 6)) == {"lost": "worse"}
    both = sides([run(0, 9000.0)] * 6, [run(5, 10_000.0)] * 6)
    assert verdicts(both) == {"lost": "", "election ms": ""}


def test_newly_violated_promise_is_always_a_regression() -> None:
    """No statistics: Kafka promised it. What the first side broke, too, is no regression."""
    found = sides([run(), run(verdict="violated")], [run(verdict="violated")] * 2)
    assert found.broken() == ["crash, seed 1: Kafka's promise is broken with 4.3.1 (run-1)"]


@pytest.mark.parametrize("render", [markdown.render, html.render])
def test_inconclusive_run_is_not_paired(render: Any) -> None:
    """Nor has a seed that only one side has."""
    found = sides([run(0), run(0, verdict="inconclusive"), run(1), run(0)], [run(7), run(7), run(8)])
    (lost,) = found.differences()
    assert list(lost.pairs.values) == [(0, 7), (1, 8)]
    assert found.to_json()["differences"][0]["pairs"] == [(0, 7), (1, 8)]
    assert sides([run(0)], [run(7)]).differences() == []
    assert "crash" in render(regression_report.document(found, "kaput regress"))
