"""Kafka's promise and the scenario's expectations are two things, in every form of a report."""

from __future__ import annotations

from typing import Any

import pytest
from handmade_findings import anomaly
from junitparser import Error, Failure, JUnitXml, TestCase

from kaput.evidence.findings import Findings
from kaput.report.comparison import Entry, compare
from kaput.report.junit import to_junit
from kaput.report.run_report import to_markdown, to_text
from kaput.report.sections import JudgedRun
from kaput.report.sections.summary import head
from kaput.report.sentences import verdict_sentence

LOST = {"name": "lost", "wanted": "0", "found": 23, "met": "exceeded", "why": "23 lost, permitted"}
SLUMP = {"name": "slump", "wanted": "<=30", "found": 39, "met": "exceeded", "why": "39 s"}
GHOST = {"name": "ghost", "wanted": ">0", "found": 0, "met": "unmet", "why": "0 ghost"}
MET = {"name": "unseen", "wanted": "0", "found": 0, "met": "met"}
KEPT, BROKE = "Kafka kept its promise", "Kafka broke its promise"
OPEN = "whether Kafka kept its promise is not known"
NO_LOSS = "your expectation lost: 0 was not met (23 lost, permitted)"
NO_GHOST = "your expectation ghost: >0 was not met (0 ghost)"


def asked(wanted: str, promise: str) -> dict[str, Any]:
    """The expected verdict, and what came of it."""
    met = "met" if wanted == promise else "exceeded" if promise == "violated" else "unmet"
    return {"name": "verdict", "wanted": wanted, "found": promise, "met": met, "why": promise}


def judged(raw: dict[str, Any], promise: str | None, verdict: str, *expectations: dict[str, Any]) -> Findings:
    """A run with these outcomes, and a reason for each."""
    raw |= {"promise": promise, "verdict": verdict, "expectations": list(expectations)}
    found = Findings.model_validate(raw)
    reasons = [f"The promise is {promise}.", *(one.reason for one in found.expectations if one.met != "met")]
    return found.model_copy(update={"reasons": reasons})


@pytest.mark.parametrize(
    ("promise", "verdict", "expectations", "beginning"),
    [
        ("held", "held", [], "HELD, with permitted loss: "),
        ("held", "held", [MET, asked("held", "held")], "HELD, with permitted loss: "),
        ("held", "violated", [LOST, MET], f"VIOLATED (expectation): {KEPT}; {NO_LOSS}. "),
        (
            "held",
            "violated",
            [LOST, SLUMP, GHOST],
            f"VIOLATED (expectation): {KEPT}; {NO_LOSS}, nor was slump: <=30 (39 s), "
            "nor was ghost: >0 (0 ghost). ",
        ),
        ("held", "inconclusive", [GHOST], f"INCONCLUSIVE (expectation): {KEPT}; {NO_GHOST}. "),
        (
            "held",
            "inconclusive",
            [asked("violated", "held")],
            f"INCONCLUSIVE (expectation): {KEPT}; your expectation verdict: violated was not met (held). ",
        ),
        ("violated", "violated", [], f"VIOLATED: {BROKE}. "),
        ("violated", "violated", [asked("held", "violated")], f"VIOLATED: {BROKE}. "),
        ("violated", "violated", [asked("violated", "violated")], f"VIOLATED: {BROKE}, as you expected. "),
        ("violated", "violated", [LOST], f"VIOLATED: {BROKE}; {NO_LOSS}. "),
        ("violated", "violated", [GHOST], f"VIOLATED: {BROKE}; {NO_GHOST}. "),
        (
            "violated",
            "violated",
            [asked("inconclusive", "violated")],
            f"VIOLATED: {BROKE}; your expectation verdict: inconclusive was not met (violated). ",
        ),
        ("inconclusive", "inconclusive", [], f"INCONCLUSIVE: {OPEN}. "),
        ("inconclusive", "inconclusive", [asked("held", "inconclusive")], f"INCONCLUSIVE: {OPEN}. "),
        (
            "inconclusive",
            "inconclusive",
            [asked("inconclusive", "inconclusive")],
            f"INCONCLUSIVE: {OPEN}, as you expected. ",
        ),
        ("inconclusive", "violated", [LOST], f"VIOLATED (expectation): {OPEN}; {NO_LOSS}. "),
        ("inconclusive", "inconclusive", [GHOST], f"INCONCLUSIVE: {OPEN}; {NO_GHOST}. "),
        (
            "inconclusive",
            "inconclusive",
            [asked("violated", "inconclusive")],
            f"INCONCLUSIVE: {OPEN}; your expectation verdict: violated was not met (inconclusive). ",
        ),
        (None, "violated", [LOST], "VIOLATED: "),
    ],
)
def test_headline_separates_promise_from_expectation(
    raw: dict[str, Any],
    promise: str | None,
    verdict: str,
    expectations: list[dict[str, Any]],
    beginning: str,
) -> None:
    """Every combination; the counts follow. Findings of an older kaput do not tell."""
    found = judged(raw, promise, verdict, *expectations)
    assert verdict_sentence(found).startswith(
        f"{beginning}40,000 sent, 39,997 acknowledged, 3 of unknown outcome, 23 "
    )
    assert to_text(found, "x").plain.startswith(beginning)
    assert head(JudgedRun(found)).verdict == beginning.partition(":")[0]


def test_what_only_a_replay_did_is_not_laid_to_kafka(raw: dict[str, Any]) -> None:
    """A store that was thought not to have them had some messages, too, and both were replayed."""
    raw["anomalies"] = [anomaly(raw, "duplicate") | {"count": 20, "permitted": 0, "causes": {"replay": 20}}]
    sentence = verdict_sentence(judged(raw, "violated", "violated"))
    assert sentence.startswith("VIOLATED: a store or its replay broke its promise, not Kafka. ")
    raw["anomalies"][0]["causes"] = {"replay": 19, "retry": 1}
    assert verdict_sentence(judged(raw, "violated", "violated")).startswith(
        "VIOLATED: Kafka broke its promise. "
    )


def test_first_reason_on_the_page_is_about_the_promise(raw: dict[str, Any]) -> None:
    """What was expected is in the headline already."""
    assert head(JudgedRun(judged(raw, "held", "violated", LOST))).why == ""
    raw["reasons"] = []
    assert head(JudgedRun(judged(raw, "violated", "violated", LOST))).why == "The promise is violated."


def test_markdown_names_the_expectation(raw: dict[str, Any]) -> None:
    """In its heading and below."""
    text = to_markdown(judged(raw, "held", "violated", LOST))
    assert text.startswith("### VIOLATED (expectation): leader-kill-lagging-acks-1")
    assert NO_LOSS in text and "- Your expectation lost: 0 was not met" in text


def test_comparison_separates_promise_from_expectation(raw: dict[str, Any]) -> None:
    """A run that Kafka's promise broke, one that an expectation did, and repetitions of both."""
    broken, unexpected = judged(raw, "violated", "violated"), judged(raw, "held", "violated", LOST)
    entries = [
        Entry("r", variant, "s", {"n": variant}, one)
        for variant, one in zip("ab", (broken, unexpected), strict=True)
    ]
    verdicts = next(column for column in compare(entries).naming if column.name == "verdict")
    assert verdicts.cells == ["violated", "violated (expectation)"]
    again = [*entries, Entry("r", "b", "s", {"n": "b"}, broken)]
    verdicts = next(column for column in compare(again).naming if column.name == "verdict")
    assert verdicts.cells == ["violated", "1 violated (expectation), 1 violated"]


def cases(found: Findings) -> dict[str, TestCase]:
    """The cases of JUnit by name."""
    (suite,) = JUnitXml.fromstring(to_junit(found))
    return {case.name: case for case in suite}


def test_junit_has_a_case_for_the_promise_and_one_for_each_expectation(raw: dict[str, Any]) -> None:
    """Each fails for its own reason alone."""
    raw["run"]["ended_ns"] = raw["run"]["started_ns"] + 2_500_000_000
    found = cases(judged(raw, "held", "violated", LOST, GHOST, MET))
    assert "verdict" not in found and found["Kafka kept its promise"].is_passed
    assert found["Kafka kept its promise"].time == 2.5
    (failure,), (error,) = found["expect lost: 0"].result, found["expect ghost: >0"].result
    assert isinstance(failure, Failure) and failure.message == "lost: 0 was not met (23 lost, permitted)"
    assert isinstance(error, Error) and error.message == "ghost: >0 was not met (0 ghost)"
    assert found["expect unseen: 0"].is_passed


@pytest.mark.parametrize(("promise", "kind"), [("violated", Failure), ("inconclusive", Error)])
def test_junit_has_no_reason_about_expectations_for_the_promise(
    raw: dict[str, Any], promise: str, kind: type
) -> None:
    """Those are told in their own cases."""
    anomaly(raw, "lost")["permitted"] = 20
    found = cases(judged(raw, promise, "violated", LOST))
    (result,) = found["Kafka kept its promise"].result
    assert isinstance(result, kind) and result.message == f"The promise is {promise}."  # type: ignore[attr-defined]


def test_junit_of_an_older_kaput_has_one_case_for_the_verdict(raw: dict[str, Any]) -> None:
    """Which of the two was broken is not known."""
    found = cases(judged(raw, None, "violated"))
    assert "Kafka kept its promise" not in found and isinstance(found["verdict"].result[0], Failure)
