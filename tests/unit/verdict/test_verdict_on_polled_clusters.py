"""What a verdict is worth where leaders and ISR were polled, and commands broke brokers."""

from __future__ import annotations

from typing import Any

import pytest

from kaput.evidence.fault_rows import FaultRow
from kaput.verdict.contracts import Ruling
from kaput.verdict.facts import Circumstances, GroupFacts, Loss, Reordered
from kaput.verdict.rules import ExistingClusterLimits
from unit.verdict.conftest import Make, facts_of, fault_row, judge

POLLED = 211_000_000
BIT = fault_row("1-command", "command", "broker 1", True, "prove succeeds", 5, (1,), 6)
BOTH = fault_row("1-command", "command", "minority", True, "prove succeeds", 5, (1, 2), 6)
TWO, ONE = {"min.insync.replicas": "2"}, {"min.insync.replicas": "1"}
UNCLEAN = {**TWO, "unclean.leader.election.enable": "true"}


@pytest.mark.parametrize(
    ("acks", "topic", "fault", "cause", "verdict", "words"),
    [
        ("all", TWO, BIT, "deposed-leader", "violated", "acks=all must survive a change of leader"),
        ("all", TWO, BIT, "unexplained", "violated", "no change of leader explains it"),
        ("all", TWO, BOTH, "deposed-leader", "inconclusive", "commands hit 2 brokers, and as few as 2"),
        ("all", ONE, BIT, "deposed-leader", "inconclusive", "polling does not tell what the ISR was"),
        ("all", UNCLEAN, BIT, "deposed-leader", "inconclusive", "unclean leader election is enabled, and"),
        ("1", TWO, BIT, "deposed-leader", "held", "acks=1 promises nothing across a change of leader"),
        ("1", TWO, BIT, "leader-restarted", "inconclusive", "whether a command destroyed more than"),
        ("1", TWO, BIT, "unexplained", "violated", "acks=1, and no change of leader explains it"),
        ("0", ONE, BIT, "acks-0", "held", "acks=0 promises nothing"),
    ],
)  # fmt: skip
def test_verdict_on_a_loss_when_isr_and_leaders_were_polled(
    scenario: Make, acks: str, topic: dict[str, Any], fault: FaultRow, cause: str, verdict: str, words: str
) -> None:
    """A violation is one whatever the ISR was, and whatever became of the brokers that were hit."""
    made = scenario(acks=acks, topic=topic, faults=["command"])
    losses = [Loss(0, "orders", cause, 3)]
    found = judge(facts_of(counts={"lost": 3}, losses=losses, faults=[fault], polled_ns=POLLED), made)
    assert found.verdict == verdict and any(words in reason for reason in found.reasons)
    displaced = judge(
        facts_of(displaced=[Loss(0, "orders", cause, 3)], faults=[fault], polled_ns=POLLED), made
    )
    assert displaced.verdict == verdict


@pytest.mark.parametrize(
    ("acks", "topic", "fault", "cause", "sentence"),
    [
        (
            "all",
            TWO,
            BOTH,
            "deposed-leader",
            "commands hit 2 brokers, and as few as 2 may have held these messages: "
            "it is unknown whether any copy survived",
        ),
        (
            "all",
            ONE,
            BIT,
            "deposed-leader",
            "min.insync.replicas=1, and polling does not tell what the ISR was at the time",
        ),
        (
            "all",
            UNCLEAN,
            BIT,
            "deposed-leader",
            "unclean leader election is enabled, and polling does not show whether this election was unclean",
        ),
        (
            "1",
            TWO,
            BIT,
            "leader-restarted",
            "acks=1, and the same leader came back without what it had acknowledged: "
            "whether a command destroyed more than the process is not known",
        ),
    ],
)
def test_exact_reasons_for_unclear_losses_on_a_polled_cluster(
    scenario: Make, acks: str, topic: dict[str, Any], fault: FaultRow, cause: str, sentence: str
) -> None:
    """To the letter; of what vanished from a group as well."""
    made = scenario(acks=acks, topic=topic, faults=["command"])
    losses = [Loss(0, "orders", cause, 3)]
    groups = [GroupFacts("billing", True, {"vanished": 3}, vanished=losses)]
    found = judge(facts_of(losses=losses, faults=[fault], groups=groups, polled_ns=POLLED), made)
    assert found.reasons == [
        f"3 acknowledged messages are lost: {sentence}.",
        f"Group billing: 3 messages were delivered and are stored nowhere any more: {sentence}.",
    ]


@pytest.mark.parametrize(
    ("acks", "topic", "cause", "word"),
    [
        ("all", TWO, "deposed-leader", "unclear"),
        ("all", ONE, "deposed-leader", "unclear"),
        ("all", UNCLEAN, "unclean-election", "unclear"),
        ("1", TWO, "leader-restarted", "unclear"),
        ("1", TWO, "deposed-leader", "violation"),
        ("0", TWO, "deposed-leader", "violation"),
    ],
)
def test_ruling_on_a_polled_cluster_is_unclear_or_left_alone(
    scenario: Make, acks: str, topic: dict[str, Any], cause: str, word: str
) -> None:
    """What is not known is `unclear`, whatever contracts.py has made of it; else that stands."""
    outside = ExistingClusterLimits.of(facts_of(faults=[BOTH], polled_ns=POLLED))
    made, stands = scenario(acks=acks, topic=topic), Ruling("violation", "as was said")
    ruling = outside.on_overwritten(stands, made, Loss(0, "orders", cause, 1))
    assert ruling.word == word and (ruling == stands) is (word == "violation")
    swapped = outside.on_reordered(stands, Reordered(0, 2), leader_changes=True)
    assert swapped.word == "unclear" and outside.on_reordered(stands, Reordered(0, 2), 0) == stands


def test_recorded_isr_leaves_only_command_faults_unclear(scenario: Make) -> None:
    """Nothing is unclear of what the ISR was, nor of elections."""
    for topic in (ONE, UNCLEAN):
        facts = facts_of(losses=[Loss(0, "orders", "deposed-leader", 3)])
        assert judge(facts, scenario(acks="all", topic=topic)).verdict == "violated"
    alone = [Loss(0, "orders", "deposed-leader", 3, Circumstances(isr_of_one=True))]
    facts = facts_of(losses=alone, faults=[BOTH])
    assert judge(facts, scenario(acks="all", topic=ONE, faults=["command"])).verdict == "inconclusive"
    other = fault_row("1-kill", "kill", "minority", True, "gone", 5, (1, 2))
    facts = facts_of(losses=[Loss(0, "orders", "deposed-leader", 3)], faults=[other], polled_ns=POLLED)
    assert judge(facts, scenario(acks="all", topic=TWO, faults=["kill"])).verdict == "violated"


def test_polling_does_not_change_an_already_unclear_ruling(scenario: Make) -> None:
    """Of a producer that the scenario does not have nothing else is reported."""
    stranger = "the scenario does not have producer 9, so what it was promised is not known"
    facts = facts_of(losses=[Loss(9, "orders", "unexplained", 3)], polled_ns=POLLED)
    assert judge(facts, scenario()).reasons == [f"3 acknowledged messages are lost: {stranger}."]
    compacted = {**ONE, "cleanup.policy": "compact"}
    hole = Loss(0, "orders", "unexplained", 3, Circumstances(hole=True, maybe_compacted=True))
    (reason,) = judge(
        facts_of(losses=[hole], polled_ns=POLLED), scenario(acks="all", topic=compacted, key="producer")
    ).reasons
    assert "later messages with the same keys may have taken their place" in reason


def test_loss_after_leader_restart_without_a_fault_is_a_violation(scenario: Make) -> None:
    """Its process alone has ended, as far as is known: that must survive."""
    facts = facts_of(losses=[Loss(0, "orders", "leader-restarted", 3)], polled_ns=POLLED)
    assert judge(facts, scenario(acks="1")).verdict == "violated"


def test_reordering_near_a_polled_leader_change_is_inconclusive(scenario: Make) -> None:
    """A change of leader may have come between two messages, though it was seen later."""
    made = scenario(config={"max.in.flight": 1})
    swaps = [Reordered(0, 2)]
    assert judge(facts_of(reordered=swaps, polled_ns=POLLED), made).verdict == "violated"
    assert (
        judge(facts_of(reordered=swaps, polled_ns=POLLED, leader_changes={"orders": 1}), made).verdict
        == "inconclusive"
    )
    assert judge(facts_of(reordered=swaps, leader_changes={"orders": 1}), made).verdict == "violated"
    (reason,) = judge(facts_of(reordered=swaps, polled_ns=POLLED, leader_changes={"orders": 1}), made).reasons
    assert reason == (
        "2 messages are stored after later ones of the same producer: "
        "there may have been a leader change in between: its time is known only from polling."
    )
    across = facts_of(reordered=[Reordered(0, 2, True)], polled_ns=POLLED, leader_changes={"orders": 1})
    assert judge(across, made).verdict == "held"
    kept = scenario(idempotence=True)
    assert (
        judge(
            facts_of(reordered=[Reordered(0, 2, True)], polled_ns=POLLED, leader_changes={"orders": 1}), kept
        ).verdict
        == "violated"
    )


def test_note_gives_the_precision_of_polled_times(scenario: Make) -> None:
    """Of a cluster that has recorded them itself nothing is reported."""
    assert judge(facts_of(polled_ns=POLLED), scenario()).notes == [
        "Changes of leader and ISR were seen by polling: each may have happened up to 211 ms before it was "
        "seen."
    ]
    assert judge(facts_of(), scenario()).notes == []
