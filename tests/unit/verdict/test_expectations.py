"""What a scenario expects of its verdict and its counts."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from kaput.scenario.values import parse_comparison
from kaput.verdict.facts import GroupFacts, Loss, MirrorAtEnd
from unit.verdict.conftest import Make, facts_of, judge

TWICE = [GroupFacts(name, True, {"poll-skip": 1}) for name in "ab"]


KEPT = "1,000 messages sent, 990 acknowledged: every acknowledged message is stored."
GHOST = "1 message is stored although its producer was told that it definitely is not (ghost)."
UNREAD = "1 message was not found, and its partition was not read to its end: it is not counted as lost."
FACTS: dict[str, dict[str, Any]] = {
    "held": {"counts": {"recovered": 3}},
    "violated": {"counts": {"recovered": 3, "ghost": 1}},
    "inconclusive": {"counts": {"recovered": 3}, "unread": 1},
}
PROMISED = {"held": KEPT, "violated": GHOST, "inconclusive": UNREAD}
EXCEEDED = "Your expectation recovered: 0 was not met (3 recovered, permitted)."
UNMET = "Your expectation recovered: >3 was not met (3 recovered, permitted)."


@pytest.mark.parametrize(
    ("promise", "expect", "verdict", "reasons"),
    [
        ("held", {}, "held", [KEPT]),
        ("held", {"recovered": 3}, "held", [KEPT]),
        ("held", {"recovered": 0}, "violated", [EXCEEDED, KEPT]),
        ("held", {"recovered": ">3"}, "inconclusive", [UNMET, KEPT]),
        ("violated", {"recovered": 3}, "violated", [GHOST]),
        ("violated", {"recovered": 0}, "violated", [GHOST, EXCEEDED]),
        ("violated", {"recovered": ">3"}, "violated", [GHOST, UNMET]),
        ("inconclusive", {"recovered": 3}, "inconclusive", [UNREAD]),
        ("inconclusive", {"recovered": 0}, "violated", [UNREAD, EXCEEDED]),
        ("inconclusive", {"recovered": ">3"}, "inconclusive", [UNREAD, UNMET]),
        ("held", {"verdict": "held", "recovered": 0}, "violated", [EXCEEDED, KEPT]),
    ],
)
def test_promise_and_expectations_are_judged_separately(
    promise: str, expect: dict[str, Any], verdict: str, reasons: list[str], scenario: Make
) -> None:
    """Every combination: the verdict is the worse of the two, and each reason is about one of them."""
    judgement = judge(facts_of(**FACTS[promise]), scenario(expect))
    assert (judgement.promise, judgement.verdict) == (promise, verdict)
    assert judgement.reasons == reasons


@pytest.mark.parametrize("promise", FACTS)
@pytest.mark.parametrize("wanted", FACTS)
def test_the_expected_verdict_is_that_on_kafkas_promise(promise: str, wanted: str, scenario: Make) -> None:
    """Where another one was expected it is a reason, and a run that would be held is inconclusive."""
    judgement = judge(facts_of(**FACTS[promise]), scenario({"verdict": wanted}))
    if promise == wanted:
        assert (judgement.verdict, judgement.reasons) == (promise, [PROMISED[promise]])
        return
    other = f"Your expectation verdict: {wanted} was not met ({promise})."
    assert judgement.verdict == ("violated" if promise == "violated" else "inconclusive")
    assert sorted(judgement.reasons) == sorted([other, PROMISED[promise]])


@pytest.mark.parametrize(
    ("permitted", "words"), [(8, "8 lost, permitted"), (5, "8 lost, 5 of them permitted")]
)
def test_unmet_expectation_mentions_permitted_losses(permitted: int, words: str, scenario: Make) -> None:
    """Losses of a deposed leader with acks=1, and those that nothing explains."""
    losses = [
        Loss(0, "orders", "deposed-leader", permitted),
        Loss(0, "orders", "unexplained", 8 - permitted),
    ]
    facts = facts_of(counts={"lost": 8}, losses=[one for one in losses if one.count])
    judgement = judge(facts, scenario({"lost": 0}, acks=1))
    assert f"Your expectation lost: 0 was not met ({words})." in judgement.reasons
    assert judgement.promise == ("held" if permitted == 8 else "violated")


@pytest.mark.parametrize(
    ("expect", "facts", "verdict", "sentence"),
    [
        ({"lost": 0}, {"counts": {"lost": 1500}}, "violated", "lost: 0 was not met (1,500 lost)"),
        ({"lost": ">=6"}, {"counts": {"lost": 5}}, "inconclusive", "lost: >=6 was not met (5 lost)"),
        ({"lost": ">=5"}, {"counts": {"lost": 5}}, "held", ""),
        ({"lost": ">5"}, {"counts": {"lost": 5}}, "inconclusive", "lost: >5 was not met (5 lost)"),
        ({"lost": "==5"}, {"counts": {"lost": 5}}, "held", ""),
        ({"lost": "==5"}, {"counts": {"lost": 6}}, "violated", "lost: ==5 was not met (6 lost)"),
        ({"lost": "<5"}, {"counts": {"lost": 5}}, "violated", "lost: <5 was not met (5 lost)"),
        ({"lost": "<5"}, {"counts": {"lost": 4}}, "held", ""),
        ({"lost": "<= 0.5 %"}, {"counts": {"lost": 5}}, "held", ""),
        ({"lost": "<= 0.5 %"}, {"counts": {"lost": 6}}, "violated", "lost: <= 0.5 % was not met (6 lost)"),
        (
            {"poll-skip": 3},
            {"groups": TWICE},
            "violated",
            "poll-skip: 3 was not met (2 poll-skip, summed over 2 groups)",
        ),
        ({"slump": "<=30"}, {"slump_s": 39}, "violated", "slump: <=30 was not met (39 s)"),
        ({"slump": 0}, {"slump_s": 0}, "held", ""),
        (
            {"slump": 0},
            {},
            "inconclusive",
            "slump: 0 was not met (not measured: not every producer has a rate from the beginning, "
            "or no whole second passed)",
        ),
        ({"standstill": "<=5"}, {"standstill_s": 6}, "violated", "standstill: <=5 was not met (6 s)"),
        ({"standstill": 0}, {"standstill_s": 0}, "held", ""),
        (
            {"standstill": 0},
            {},
            "inconclusive",
            "standstill: 0 was not met (not measured: no last stable offset was sampled)",
        ),
        (
            {"standstill-ms": "<5"},
            {"standstill_ms": None, "acks_untimed": True},
            "inconclusive",
            "standstill-ms: <5 was not met (not measured: acknowledgements have no times)",
        ),
        (
            {"stuck": 0},
            {"stuck": None, "acks_untimed": True},
            "inconclusive",
            "stuck: 0 was not met (not measured: acknowledgements have no times)",
        ),
        ({"stuck": 0}, {"stuck": 11}, "violated", "stuck: 0 was not met (11 stuck)"),
        (
            {"stuck": 0},
            {"stuck": 11, "groups": [replace(one, counts={}) for one in TWICE]},
            "violated",
            "stuck: 0 was not met (11 stuck, summed over 2 groups)",
        ),
        (
            {"standstill-ms": "<5000"},
            {"standstill_ms": 10_250.4},
            "violated",
            "standstill-ms: <5000 was not met (10,250.4 ms)",
        ),
        ({"standstill-ms": 0}, {}, "held", ""),
        ({"unavailable-ms": "<=800"}, {"unavailable_ms": 700.0}, "held", ""),
        ({"election-ms": "<9"}, {"election_ms": 9.0}, "violated", "election-ms: <9 was not met (9.0 ms)"),
        ({"ack-p99-ms": ">=5"}, {"ack_p99_ms": 4.9}, "inconclusive", "ack-p99-ms: >=5 was not met (4.9 ms)"),
        (
            {"end-to-end-p99-ms": "<5"},
            {},
            "inconclusive",
            "end-to-end-p99-ms: <5 was not met (not measured: nothing was delivered)",
        ),
        (
            {"election-ms": "<5"},
            {},
            "inconclusive",
            "election-ms: <5 was not met (not measured: no fault led to an election)",
        ),
        (
            {"ghost": ">0", "lost": ">0"},
            {"counts": {"lost": 1}},
            "inconclusive",
            "ghost: >0 was not met (0 ghost)",
        ),
    ],
)
def test_expected_counts(
    expect: dict[str, Any], facts: dict[str, Any], verdict: str, sentence: str, scenario: Make
) -> None:
    """More than expected is a violation, less proves nothing; groups are summed up."""
    judgement = judge(facts_of(**facts), scenario(expect))
    assert judgement.verdict == verdict, judgement.reasons
    said = [reason for reason in judgement.reasons if reason.startswith("Your expectation")]
    assert said == ([f"Your expectation {sentence}."] if sentence else [])
    assert judgement.promise == ("violated" if "poll-skip" in expect else "held")


def test_every_expectation_is_listed_with_its_outcome(scenario: Make) -> None:
    """Those that were met, too, and the verdict."""
    expect = {"verdict": "held", "lost": 0, "election-ms": "<5", "standstill-ms": "<5"}
    facts = facts_of(counts={"lost": 0}, standstill_ms=7.5)
    told = [one.model_dump() for one in judge(facts, scenario(expect)).expectations]
    no_election = "not measured: no fault led to an election"
    assert sorted(told, key=lambda one: one["name"]) == [
        {"name": "election-ms", "wanted": "<5", "found": None, "met": "unmet", "why": no_election},
        {"name": "lost", "wanted": "0", "found": 0, "met": "met", "why": ""},
        {"name": "standstill-ms", "wanted": "<5", "found": 7.5, "met": "exceeded", "why": "7.5 ms"},
        {"name": "verdict", "wanted": "held", "found": "held", "met": "met", "why": ""},
    ]


SAME = MirrorAtEnd("dc1->dc2", status="differs by design")
STOPPED = MirrorAtEnd("dc2->dc1", ended="it had been stopped")
LOST_ROWS = [f"topic orders, {aspect}" for aspect in ("records", "keys", "order", "config")]


@pytest.mark.parametrize(
    ("mirrors", "verdict", "found", "why"),
    [
        ([SAME], "held", "differs by design", ""),
        ([replace(SAME, status="identical")], "held", "identical", ""),
        ([SAME, STOPPED], "held", "differs by design", ""),
        (
            [SAME, replace(SAME, name="dc1->dc3", status="lost", lost=LOST_ROWS[:1])],
            "violated",
            "lost",
            "dc1->dc3: 1 row lost: topic orders, records",
        ),
        (
            [replace(SAME, status="lost", lost=LOST_ROWS), MirrorAtEnd("dc1->dc3")],
            "violated",
            "lost",
            "dc1->dc2: 4 rows lost: topic orders, records; topic orders, keys; topic orders, order; ...",
        ),
        (
            [SAME, MirrorAtEnd("dc1->dc3")],
            "inconclusive",
            None,
            "not measured: dc1->dc3 was not compared",
        ),
        (
            [MirrorAtEnd("dc1->dc2", why="dc1 cannot be reached")],
            "inconclusive",
            None,
            "not measured: dc1->dc2 was not compared (dc1 cannot be reached)",
        ),
        ([STOPPED], "inconclusive", None, "not measured: no mirror ran in the end"),
    ],
)
def test_mirror_identical_expectation(
    mirrors: list[MirrorAtEnd], verdict: str, found: str | None, why: str, scenario: Make
) -> None:
    """Of those that ran in the end; what is not known proves nothing. Kafka's promise is not concerned."""
    judgement = judge(facts_of(mirrors=mirrors), scenario({"mirror": "identical"}))
    assert (judgement.verdict, judgement.promise) == (verdict, "held")
    (expected,) = judgement.expectations
    assert (expected.name, expected.wanted, expected.found, expected.why) == (
        "mirror",
        "identical",
        found,
        why,
    )
    stopped = ["Mirror dc2->dc1 was not compared: it had been stopped."] if STOPPED in mirrors else []
    assert judgement.notes == stopped


def test_stopped_mirror_without_expectation_adds_no_note(scenario: Make) -> None:
    """A stopped one is told of elsewhere."""
    judgement = judge(facts_of(mirrors=[STOPPED]), scenario())
    assert (judgement.verdict, judgement.notes) == ("held", [])


@pytest.mark.parametrize(
    ("sent", "lost", "wanted", "verdict"),
    [
        (14, 7, ">=50%", "held"),
        (14, 7, "<50%", "violated"),
        (14, 7, "==50%", "held"),
        (58, 29, "<=50%", "held"),
        (58, 29, ">50%", "inconclusive"),
        (3, 1, "<=33.3333333%", "violated"),
        (1000, 7, "<=0.7%", "held"),
        (1000, 8, "<=0.7%", "violated"),
    ],
)
def test_shares_of_the_messages_sent_are_compared_exactly(
    sent: int, lost: int, wanted: str, verdict: str, scenario: Make
) -> None:
    """In floating point 50 % of 14 are more than 7, and 50 % of 58 are less than 29."""
    losses = [Loss(0, "orders", "deposed-leader", lost)]
    facts = facts_of(sent=sent, acked=sent, counts={"lost": lost}, losses=losses)
    assert judge(facts, scenario({"lost": wanted}, acks=1)).verdict == verdict


def test_times_are_compared_with_limits_as_they_are_written(scenario: Make) -> None:
    """0.3 ms is not 0.1 + 0.2 of a float."""
    assert judge(facts_of(ack_p99_ms=0.3), scenario({"ack-p99-ms": "<=0.3"})).verdict == "held"
    assert judge(facts_of(ack_p99_ms=0.1 + 0.2), scenario({"ack-p99-ms": "<=0.3"})).verdict == "violated"


def test_every_whole_share_agrees_with_integers() -> None:
    """For each percentage and count: the comparison says what 100 x count against percentage x total says."""
    for percent, total in product(range(0, 101, 7), (*range(1, 120), 1_000_003)):
        bound = parse_comparison(f"<={percent}%").of(total)
        for count in {percent * total // 100 + more for more in (-1, 0, 1)}:
            assert (count <= bound) == (100 * count <= percent * total), (percent, total, count)
