"""What a scenario expects of its verdict and its counts."""

from __future__ import annotations

from typing import Any

import pytest

from kaput.verdict.facts import GroupFacts
from kaput.verdict.judge import judge
from unit.verdict.conftest import Make, facts_of

TWICE = [GroupFacts(name, True, {"poll-skip": 1}) for name in "ab"]


@pytest.mark.parametrize(
    ("expected", "facts", "verdict", "reasons"),
    [
        ("held", {}, "held", 1),
        ("violated", {}, "inconclusive", 1),
        ("inconclusive", {"unread": 1}, "inconclusive", 1),
        ("held", {"unread": 1}, "inconclusive", 2),
        ("held", {"counts": {"ghost": 1}}, "violated", 2),
        ("inconclusive", {"counts": {"ghost": 1}}, "violated", 2),
    ],
)
def test_another_verdict_than_expected(
    expected: str, facts: dict[str, Any], verdict: str, reasons: int, scenario: Make
) -> None:
    """It is said, and a run that would be held is inconclusive."""
    judgement = judge(facts_of(**facts), scenario({"verdict": expected}))
    assert (judgement.verdict, len(judgement.reasons)) == (verdict, reasons)
    if expected == "violated":
        assert judgement.reasons == ["The scenario expects the verdict 'violated', but this is 'held'."]


@pytest.mark.parametrize(
    ("expect", "facts", "verdict", "sentence"),
    [
        ({"lost": 0}, {"counts": {"lost": 1500}}, "violated", "lost 0, and it is 1,500"),
        ({"lost": ">=6"}, {"counts": {"lost": 5}}, "inconclusive", "lost >=6, and it is 5"),
        ({"lost": ">=5"}, {"counts": {"lost": 5}}, "held", ""),
        ({"lost": ">5"}, {"counts": {"lost": 5}}, "inconclusive", "lost >5, and it is 5"),
        ({"lost": "==5"}, {"counts": {"lost": 5}}, "held", ""),
        ({"lost": "==5"}, {"counts": {"lost": 6}}, "violated", "lost ==5, and it is 6"),
        ({"lost": "<5"}, {"counts": {"lost": 5}}, "violated", "lost <5, and it is 5"),
        ({"lost": "<5"}, {"counts": {"lost": 4}}, "held", ""),
        ({"lost": "<= 0.5 %"}, {"counts": {"lost": 5}}, "held", ""),
        ({"lost": "<= 0.5 %"}, {"counts": {"lost": 6}}, "violated", "lost <= 0.5 %, and it is 6"),
        (
            {"poll-skip": 3},
            {"groups": TWICE},
            "violated",
            "poll-skip 3, and it is 2",
        ),
        ({"slump": "<=30"}, {"slump_s": 39}, "violated", "slump <=30, and it is 39"),
        ({"slump": 0}, {}, "held", ""),
        ({"standstill": "<=5"}, {"standstill_s": 6}, "violated", "standstill <=5, and it is 6"),
        ({"standstill": 0}, {}, "held", ""),
        ({"stuck": 0}, {"stuck": 11}, "violated", "stuck 0, and it is 11"),
        (
            {"standstill-ms": "<5000"},
            {"standstill_ms": 10_250.4},
            "violated",
            "standstill-ms <5000, and it is 10,250.4",
        ),
        ({"standstill-ms": 0}, {}, "held", ""),
        ({"unavailable-ms": "<=800"}, {"unavailable_ms": 700.0}, "held", ""),
        ({"election-ms": "<9"}, {"election_ms": 9.0}, "violated", "election-ms <9, and it is 9.0"),
        ({"ack-p99-ms": ">=5"}, {"ack_p99_ms": 4.9}, "inconclusive", "ack-p99-ms >=5, and it is 4.9"),
        (
            {"end-to-end-p99-ms": "<5"},
            {},
            "inconclusive",
            "end-to-end-p99-ms <5, and it was not measured: nothing was delivered",
        ),
        (
            {"election-ms": "<5"},
            {},
            "inconclusive",
            "election-ms <5, and it was not measured: no fault led to an election",
        ),
        ({"ghost": ">0", "lost": ">0"}, {"counts": {"lost": 1}}, "inconclusive", "ghost >0, and it is 0"),
    ],
)
def test_expected_counts(
    expect: dict[str, Any], facts: dict[str, Any], verdict: str, sentence: str, scenario: Make
) -> None:
    """More than expected is a violation, less proves nothing; groups are summed up."""
    judgement = judge(facts_of(**facts), scenario(expect))
    assert judgement.verdict == verdict, judgement.reasons
    said = [reason for reason in judgement.reasons if reason.startswith("The scenario expects")]
    assert said == ([f"The scenario expects {sentence}."] if sentence else [])


def test_each_expectation_is_listed_with_what_came_of_it(scenario: Make) -> None:
    """Those that were met, too; the verdict is no figure."""
    expect = {"verdict": "held", "lost": 0, "election-ms": "<5", "standstill-ms": "<5"}
    facts = facts_of(counts={"lost": 0}, standstill_ms=7.5)
    told = [one.model_dump() for one in judge(facts, scenario(expect)).expectations]
    assert sorted(told, key=lambda one: one["name"]) == [
        {"name": "election-ms", "wanted": "<5", "found": None, "met": "unmet"},
        {"name": "lost", "wanted": "0", "found": 0, "met": "met"},
        {"name": "standstill-ms", "wanted": "<5", "found": 7.5, "met": "exceeded"},
    ]
