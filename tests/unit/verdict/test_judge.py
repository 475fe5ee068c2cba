"""Each rule of the verdict on facts written by hand: the verdict, and its sentences to the letter."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kaput.analysis.questions import questions
from kaput.evidence.fault_rows import FaultRow
from kaput.evidence.findings import UnreadPartition
from kaput.scenario.anomalies import ANOMALIES
from kaput.scenario.model import Scenario
from kaput.verdict.facts import (
    Circumstances,
    Consequence,
    GroupFacts,
    Loss,
    PlanStepAtEnd,
    Reordered,
)
from unit.verdict.conftest import Make, facts_of, fault_row, judge


def _unseen(count: int, early: int, maybe_early: int = 0) -> GroupFacts:
    """A group with unseen messages, some of which are excused."""
    excused = {"too early": early, "maybe too early": maybe_early}
    return GroupFacts("billing", True, {"unseen": count}, excused={"unseen": excused})


def _hanging(count: int) -> dict[str, int]:
    return {"hanging-transaction": count}


def _unread(partition: int, drained_to: int | None = None, end: int | None = None) -> UnreadPartition:
    return UnreadPartition(topic="orders", partition=partition, drained_to=drained_to, end_offset=end)


KILL = fault_row("1-kill", "kill", "broker 1", True, "process gone", 5, healed_ns=6)
REST = "What else may be there, such as duplicates, phantoms and corrupt records, is not known."

DOUBTS: list[tuple[dict[str, Any], str]] = [
    ({"sent": 0}, "No message was sent."),
    ({"state": "recording"}, "The run was never finished: it is judged by what had been recorded."),
    (
        {"unread": 4000},
        "4,000 messages were not found, and their partition was not read to its end: "
        "they are not counted as lost.",
    ),
    (
        {"unread_partitions": [_unread(0, 5000, 10000)]},
        f"Not read to the end: orders/0 (read to 5,000 of 10,000). {REST}",
    ),
    ({"unread_partitions": [_unread(0, 0, 0)]}, f"Not read to the end: orders/0 (read to 0 of 0). {REST}"),
    (
        {"unread_partitions": [_unread(n) for n in range(5)]},
        "Not read to the end: orders/0 (no end offset), orders/1 (no end offset), orders/2 (no end offset), "
        f"orders/3 (no end offset), orders/4 (no end offset). {REST}",
    ),
    (
        {"unread_partitions": [_unread(n) for n in range(1006)]},
        "Not read to the end: orders/0 (no end offset), orders/1 (no end offset), orders/2 (no end offset), "
        f"orders/3 (no end offset), orders/4 (no end offset) and 1,001 more. {REST}",
    ),
    (
        {"plan": [PlanStepAtEnd("5 move-producers", "failed", "all producers are already in dc2")]},
        "Step 5 move-producers of the plan failed: all producers are already in dc2.",
    ),
    (
        {"plan": [PlanStepAtEnd("2 decide", "skipped", "the load was over before the step was due")]},
        "Step 2 decide of the plan was skipped: the load was over before the step was due.",
    ),
    (
        {"groups": [GroupFacts("billing", False)]},
        "Group billing had not read everything when the run ended: what it has not seen is not counted.",
    ),
    (
        {"faults": [fault_row("2-kill", "kill", "broker 1", False, "still alive")]},
        "Fault 2-kill (kill broker 1) had no effect: still alive.",
    ),
    (
        {"faults": [fault_row("2-kill", "kill", "broker 1", False, "")]},
        "Fault 2-kill (kill broker 1) had no effect: no proof.",
    ),
    (
        {"faults": [fault_row("2-kill", "kill", "broker 1", True, "gone")]},
        "Fault 2-kill (kill broker 1) is recorded as having taken effect, but not when: that proves nothing.",
    ),
    (
        {"faults": [fault_row("2-noop", "noop", "any", False, "")]},
        "Fault 2-noop (noop any) had no effect: no proof.",
    ),
    (
        {"faults": [fault_row("2-cut", "cut", "broker 1", False, "SYN dropped; the heal failed: EPERM", 5)]},
        "Fault 2-cut (cut broker 1) took effect, but is not proven in full: "
        "SYN dropped; the heal failed: EPERM.",
    ),
    (
        {"deaths": [(2, 17_001_000_000)]},
        "Broker 2 stopped outside any fault (at 00:00:17.001 UTC): no step ended it.",
    ),
    ({"troubles": ["broker 3 ran out of disk"]}, "Broker 3 ran out of disk."),
    ({"troubles": ["broker 3 ran out of disk."]}, "Broker 3 ran out of disk."),
    ({"troubles": ["runs/a/sends.parquet: 2 unknown"]}, "runs/a/sends.parquet: 2 unknown."),
]


@pytest.mark.parametrize(("facts", "sentence"), DOUBTS)
def test_each_doubt_makes_the_run_inconclusive_with_one_reason(
    facts: dict[str, Any], sentence: str, scenario: Make
) -> None:
    """One doubt makes a run inconclusive, and is all that is reported."""
    judgement = judge(facts_of(**facts), scenario())
    assert (judgement.verdict, judgement.reasons) == ("inconclusive", [sentence])


def test_noop_has_nothing_to_prove(scenario: Make) -> None:
    """Doing nothing needs no moment of an effect."""
    noop = fault_row("1-noop", "noop", "any", True, "nothing done")
    assert judge(facts_of(faults=[noop]), scenario(faults=["noop"])).verdict == "held"


@pytest.mark.parametrize(
    ("steps", "rows", "sentence"),
    [
        (["kill"], [], "1 of the scenario's 1 faults was never injected: 1 kill."),
        (
            ["pause", "kill", "kill"],
            [],
            "3 of the scenario's 3 faults were never injected: 2 kill, 1 pause.",
        ),
        (["kill", "pause"], [KILL, KILL], "1 of the scenario's 2 faults was never injected: 1 pause."),
    ],
)
def test_missing_steps_are_named(
    steps: list[str], rows: list[FaultRow], sentence: str, scenario: Make
) -> None:
    """Each step wants a row of its own."""
    assert judge(facts_of(faults=rows), scenario(faults=steps)).reasons == [sentence]


def test_step_that_cannot_be_read_keeps_its_number(scenario: Make) -> None:
    """Those behind it keep theirs; whether it was injected is known only from its row."""
    steps = scenario(faults=["kill"]).with_unreadable_steps({1: "line 9: faults.0.at: no time"})
    second = replace(KILL, id="2-kill")
    cannot = "tep 1 of the scenario cannot be read: line 9: faults.0.at: no time."
    assert judge(facts_of(faults=[second]), steps).reasons == [
        f"S{cannot} Whether it was injected is not known."
    ]
    both = judge(facts_of(faults=[KILL, second]), steps)
    assert both.verdict == "held" and both.notes == [f"S{cannot} 1-kill is judged as it was recorded."]
    assert judge(facts_of(faults=[KILL]), steps).reasons == [
        "1 of the scenario's 2 faults was never injected: 1 kill."
    ]


_WATCHING = {"fault": "protocol", "target": "broker 1", "api": "Metadata", "what": "disconnect"}


@pytest.mark.parametrize("optional", [False, True])
def test_optional_step_that_met_no_request_is_judged_as_absent(optional: bool, scenario: Make) -> None:
    """Not one whose injection failed: whether a request was met is not known."""
    steps = ["kill", {"at": "2s", **_WATCHING, "optional": optional}]
    watched = fault_row("2-protocol", "protocol", "broker 1", False, "0 requests seen", None, healed_ns=9)
    judged = judge(facts_of(faults=[KILL, watched]), scenario(faults=steps))
    failed = judge(facts_of(faults=[KILL, replace(watched, healed_ns=None)]), scenario(faults=steps))
    assert failed.verdict == "inconclusive"
    if not optional:
        assert judged.reasons == ["Fault 2-protocol (protocol broker 1) had no effect: 0 requests seen."]
        return
    assert judged.verdict == "held" and judged.reasons[0].endswith("and 1 of 2 faults took effect.")
    assert judged.notes == [
        "Step 2-protocol met nothing (0 requests seen); it is optional, so the run is judged as one without "
        "this step."
    ]


def test_optional_step_whose_event_never_came_is_judged_as_absent(scenario: Make) -> None:
    """Only what waits for an event: another step without a record was never injected."""
    waiting = {"at": {"event": "election"}, "fault": "pause", "optional": True}
    judged = judge(facts_of(faults=[KILL]), scenario(faults=["kill", waiting]))
    assert judged.verdict == "held" and "its event never came" in judged.notes[0]
    both = scenario(faults=["kill", waiting, {"at": "1s", "fault": "stop", "optional": True}])
    assert judge(facts_of(faults=[KILL]), both).reasons == [
        "1 of the scenario's 3 faults was never injected: 1 stop."
    ]


def test_reason_of_a_held_run_counts_messages_and_faults(scenario: Make) -> None:
    """The last word of a run in which nothing happened, and of one with losses that are permitted."""
    kept = "1,000 messages sent, 990 acknowledged: every acknowledged message is stored"
    assert judge(facts_of(), scenario()).reasons == [f"{kept}."]
    two = judge(facts_of(faults=[KILL, KILL]), scenario(faults=["kill"])).reasons
    assert two == [f"{kept}, and 2 of 2 faults took effect."]
    none = "1,000 messages sent, 0 acknowledged: none was promised to be there."
    assert judge(facts_of(acked=0), scenario()).reasons == [none]
    lost = facts_of(counts={"lost": 5}, losses=[Loss(0, "orders", "deposed-leader", 5)])
    assert judge(lost, scenario(acks=1)).reasons == [
        "1,000 messages sent, 990 acknowledged: no promise was broken.",
        "5 acknowledged messages are lost, permitted: acks=1 promises nothing across a change of leader.",
    ]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (
            "ghost",
            "1,500 messages are stored although their producer was told that they definitely are not "
            "(ghost).",
        ),
        ("phantom", "1,500 records are stored with an identity that was never sent (phantom)."),
        ("corrupt", "1,500 records are damaged: their checksum does not match (corrupt)."),
    ],
)
def test_ghost_phantom_and_corrupt_are_always_violations(name: str, sentence: str, scenario: Make) -> None:
    """A count, what it means, and its name."""
    judgement = judge(facts_of(counts={name: 1500}), scenario(acks=0))
    assert (judgement.verdict, judgement.reasons) == ("violated", [sentence])


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("unseen", "stored messages were never delivered"),
        ("poll-skip", "polls jumped over stored records without a change of assignment"),
        ("nonmonotonic-poll", "polls went back without a change of assignment"),
        ("commit-ahead", "commits passed records that had not been delivered yet"),
        ("unassigned-delivery", "records were delivered to a member that did not own their partition"),
    ],
)
def test_consumer_group_anomalies_that_are_never_permitted(name: str, sentence: str, scenario: Make) -> None:
    """The group, a count, what it means, and its name."""
    facts = facts_of(groups=[GroupFacts("audit", True), GroupFacts("billing", True, {name: 2000})])
    assert judge(facts, scenario()).reasons == [f"Group billing: 2,000 {sentence} ({name})."]


@pytest.mark.parametrize(
    ("counts", "unreadable", "verdict"),
    [
        ({"phantom": 2}, {"sends": 2}, "inconclusive"),
        ({"phantom": 3}, {"sends": 2}, "violated"),
        ({"phantom": 3}, {"sends": 1, "cluster_events": 1}, "inconclusive"),
        ({"corrupt": 1}, {"sends": 2}, "violated"),
    ],
)
def test_what_unreadable_lines_may_explain_is_no_violation(
    counts: dict[str, int], unreadable: dict[str, int], verdict: str, scenario: Make
) -> None:
    """A line of messages explains one case; one of another table any number; what is there is there."""
    facts = facts_of(counts=counts, unreadable_lines=unreadable, troubles=["a line could not be read"])
    judgement = judge(facts, scenario(acks=0))
    assert judgement.verdict == verdict
    assert any("may be why" in reason for reason in judgement.reasons) == (verdict == "inconclusive")


def test_redelivery_after_commit_is_a_violation_before_it_permitted(scenario: Make) -> None:
    """What was delivered before is permitted, and reported in numbers alone."""
    judgement = judge(
        facts_of(groups=[GroupFacts("billing", True, {"redelivered": 9000}, {"redelivered": 7000})]),
        scenario(),
    )
    assert judgement.reasons == [
        "Group billing: 7,000 records were delivered again after their offsets had been committed "
        "(redelivered)."
    ]
    assert judgement.permitted["redelivered", "billing"] == 2000


def test_unseen_records_from_before_a_latest_group_are_permitted(scenario: Make) -> None:
    """Of what was never delivered, that much is permitted to a group that begins at the end."""
    never = "stored messages were never delivered"
    why = (
        "auto.offset.reset=latest promises nothing about what was stored before the group first read the "
        "partition"
    )
    late = _unseen(2000, 2000)
    judgement = judge(facts_of(groups=[GroupFacts("audit", True), late]), scenario())
    assert judgement.verdict == "held" and judgement.permitted["unseen", "billing"] == 2000
    assert judgement.reasons[1:] == [f"Group billing: 2,000 {never}, permitted: {why}."]

    later = _unseen(2001, 2000)
    judgement = judge(facts_of(groups=[later]), scenario())
    assert judgement.reasons == [
        "Group billing: 1 stored message was never delivered (unseen).",
        f"Group billing: 2,000 {never}, permitted: {why}.",
    ]


def test_unseen_records_possibly_before_a_latest_group_are_unclear(scenario: Make) -> None:
    """Neither permitted nor a violation; the rest is what it was."""
    late = GroupFacts(
        "billing", True, {"unseen": 5}, excused={"unseen": {"too early": 2, "maybe too early": 3}}
    )
    judgement = judge(facts_of(groups=[late]), scenario())
    assert (judgement.verdict, judgement.permitted["unseen", "billing"]) == ("inconclusive", 2)
    assert "and when that was is unknown" in judgement.reasons[0]
    late = GroupFacts(
        "billing", True, {"unseen": 6}, excused={"unseen": {"too early": 2, "maybe too early": 3}}
    )
    assert judge(facts_of(groups=[late]), scenario()).verdict == "violated"


GONE = "messages were delivered and are stored nowhere any more"


def test_vanished_records_are_ruled_like_losses(scenario: Make) -> None:
    """By what the producer asked for and by the cause; what nothing explains is a violation."""
    kinds = [Loss(0, "orders", "deposed-leader", 7), Loss(0, "orders", "unexplained", 2)]
    groups = [GroupFacts("audit", True), GroupFacts("billing", True, {"vanished": 9}, vanished=kinds)]
    judgement = judge(facts_of(groups=groups), scenario(acks=1))
    assert (judgement.verdict, judgement.permitted["vanished", "billing"]) == ("violated", 7)
    assert judgement.reasons == [
        f"Group billing: 2 {GONE}: acks=1, and no change of leader explains it.",
        f"Group billing: 7 {GONE}, permitted: acks=1 promises nothing across a change of leader.",
    ]
    assert judge(facts_of(groups=groups), scenario(acks="all")).permitted["vanished", "billing"] == 0


PART, NONE = "transactions are stored in part", "committed transactions are not visible at all"
FOLLOWS = "it follows from a message that was overwritten, lost or removed"
STOOD = "times a last stable offset stalled for longer than transaction.timeout.ms"


@pytest.mark.parametrize(
    ("losses", "verdict", "why"),
    [
        (
            ["deposed-leader"],
            "held",
            f", permitted: {FOLLOWS}: acks=1 promises nothing across a change of leader",
        ),
        (
            ["deposed-leader", "unknown"],
            "inconclusive",
            f": {FOLLOWS}: acks=1, and who led their partition is not recorded",
        ),
        (
            ["unknown", "unexplained", "deposed-leader"],
            "violated",
            ": a committed transaction is visible as a whole or not at all",
        ),
    ],
)
def test_broken_transaction_is_ruled_by_the_worst_loss_in_it(
    losses: list[str], verdict: str, why: str, scenario: Make
) -> None:
    """A transaction is no more than its messages: where those may be lost, or perhaps, so may it be."""
    kinds = [
        Loss(0, "orders", "deposed-leader" if cause == "unknown" else cause, 1,
             Circumstances(leaders_known=cause != "unknown"))
        for cause in losses
    ]  # fmt: skip
    broken = {"torn-transaction": 2000, "lost-commit": 3}
    follows = [Consequence(name, None, count, kinds) for name, count in broken.items()]
    facts = facts_of(counts={"lost": len(losses), **broken}, losses=kinds, consequences=follows)
    judgement = judge(facts, scenario(acks=1))
    assert judgement.verdict == verdict
    told = [reason for reason in judgement.reasons if "transaction" in reason]
    assert told == [f"2,000 {PART}{why}.", f"3 {NONE}{why}."]
    permitted = [judgement.permitted.get((name, None), 0) for name in broken]
    assert permitted == ([2000, 3] if verdict == "held" else [0, 0])


def test_broken_transaction_without_a_loss_is_never_permitted(scenario: Make) -> None:
    """Besides what one broke, of the same run and the same kind."""
    facts = facts_of(
        counts={"lost": 1, "torn-transaction": 5, "lost-commit": 2},
        losses=[Loss(0, "orders", "deposed-leader", 1)],
        consequences=[Consequence("torn-transaction", None, 2, [Loss(0, "orders", "deposed-leader", 1)])],
    )
    judgement = judge(facts, scenario(acks=1))
    never = "messages of uncommitted transactions must never be visible"
    assert judgement.verdict == "violated" and judgement.permitted["torn-transaction", None] == 2
    assert judgement.reasons == [
        f"3 {PART}: {never}.",
        f"2 {NONE}: {never}.",
        "1 acknowledged message is lost, permitted: acks=1 promises nothing across a change of leader.",
        f"2 {PART}, permitted: {FOLLOWS}: acks=1 promises nothing across a change of leader.",
    ]


def test_consequence_in_a_group_is_ruled_like_its_loss(scenario: Make) -> None:
    """In a group, too: of the same anomaly, what nothing explains stays a violation."""
    gone = Loss(0, "orders", "deposed-leader", 1)
    unclear = Loss(0, "orders", "deposed-leader", 1, Circumstances(leaders_known=False))
    group = GroupFacts("billing", True, {"unseen": 6, "redelivered": 9}, flagged={"redelivered": 4})
    follows = [
        Consequence("unseen", "billing", 3, [gone]),
        Consequence("unseen", "billing", 1, [gone, unclear]),
        Consequence("unseen", "audit", 7, [gone]),
        Consequence("redelivered", "billing", 4, [gone]),
    ]
    judgement = judge(facts_of(groups=[group], consequences=follows), scenario(acks=1))
    assert judgement.verdict == "violated"
    assert judgement.permitted["unseen", "billing"] == 3
    assert judgement.permitted["redelivered", "billing"] == 9
    assert judgement.reasons[:2] == [
        "Group billing: 2 stored messages were never delivered (unseen).",
        f"Group billing: 1 stored message was never delivered: {FOLLOWS}: "
        "acks=1, and who led its partition is not recorded.",
    ]


def test_hanging_transaction_is_permitted_within_the_cleanup_interval(scenario: Make) -> None:
    """So long and no longer."""
    why = "the coordinator checks for timed-out transactions only periodically"
    in_time = judge(facts_of(counts=_hanging(2), flagged=_hanging(2)), scenario())
    assert in_time.verdict == "held" and in_time.permitted["hanging-transaction", None] == 2
    assert in_time.reasons[1:] == [f"2 {STOOD}, permitted: {why}."]
    late = judge(facts_of(counts=_hanging(5), flagged=_hanging(2)), scenario())
    assert late.verdict == "violated" and late.permitted["hanging-transaction", None] == 2
    assert late.reasons == [
        f"3 {STOOD}: the coordinator should have aborted what had timed out.",
        f"2 {STOOD}, permitted: {why}.",
    ]


def test_recovered_is_permitted(scenario: Make) -> None:
    """An unknown outcome that turns out stored is no error."""
    judgement = judge(facts_of(acked=998, counts={"recovered": 2}), scenario())
    assert (judgement.verdict, dict(judgement.permitted)) == ("held", {("recovered", None): 2})


def test_violated_beats_inconclusive(scenario: Make) -> None:
    """A proven violation stands, whatever else is in doubt; both are told, the violation first."""
    judgement = judge(facts_of(unread=1, counts={"ghost": 1}), scenario())
    assert judgement.verdict == "violated"
    assert [reason.split()[1] for reason in judgement.reasons] == ["message", "message"]
    assert "(ghost)" in judgement.reasons[0]


def test_reasons_are_grouped_and_sorted_by_count(scenario: Make) -> None:
    """One sentence for each reason; of as many, in alphabetical order; permissions after all that is not."""
    facts = facts_of(
        counts={"lost": 1007, "duplicate": 3, "reordered": 4, "inconsistent-offset": 6},
        losses=[
            Loss(0, "orders", "unexplained", 1),
            Loss(0, "orders", "deposed-leader", 3),
            Loss(9, "orders", "deposed-leader", 1),
            Loss(0, "orders", "unexplained", 1002),
        ],
        duplicates={0: 3},
        reordered=[Reordered(0, 4)],
        displaced=[Loss(0, "orders", "deposed-leader", 6)],
    )
    judgement = judge(facts, scenario(acks=1))
    assert judgement.verdict == "violated"
    assert judgement.reasons == [
        "1,003 acknowledged messages are lost: acks=1, and no change of leader explains it.",
        "1 acknowledged message is lost: the scenario does not have producer 9, "
        "so what it was promised is not known.",
        "3 acknowledged messages are lost, permitted: acks=1 promises nothing across a change of leader.",
        "3 messages are stored more than once, permitted: "
        "retries without idempotence may store a message twice.",
        "4 messages are stored after later ones of the same producer, permitted: "
        "retries with more than one request in flight may overtake each other.",
        "6 offsets were assigned to more than one message, permitted: "
        "acks=1 promises nothing across a change of leader.",
    ]
    assert dict(judgement.permitted) == {
        ("recovered", None): 0,
        ("lost", None): 3,
        ("duplicate", None): 3,
        ("reordered", None): 4,
        ("inconsistent-offset", None): 6,
    }


def test_reasons_of_one_anomaly_are_sorted_by_count(scenario: Make) -> None:
    """Whatever the alphabet says; and what is permitted for two reasons is permitted in all."""
    losses = [Loss(n, "orders", "deposed-leader", 2 + n) for n in (8, 9)]
    losses += [Loss(0, "orders", "deposed-leader", 3), Loss(0, "orders", "unclean-election", 4)]
    allowed = {"unclean.leader.election.enable": True}
    judgement = judge(facts_of(counts={"lost": 28}, losses=losses), scenario(acks=1, topic=allowed))
    assert [int(reason.split()[0]) for reason in judgement.reasons] == [11, 10, 4, 3]
    assert judgement.permitted["lost", None] == 7


def test_group_without_counts_counts_as_zero(scenario: Make) -> None:
    """No count is a count of 0."""
    judgement = judge(facts_of(groups=[GroupFacts("a", True)]), scenario({"unseen": 0, "redelivered": 0}))
    assert (judgement.verdict, judgement.permitted["redelivered", "a"]) == ("held", 0)


def test_equal_counts_are_sorted_alphabetically(scenario: Make) -> None:
    """So that the same facts always read the same."""
    losses = [Loss(n, "orders", "deposed-leader", 2) for n in (9, 8)]
    reasons = judge(facts_of(counts={"lost": 4}, losses=losses), scenario()).reasons
    assert [reason.split("producer ")[1][0] for reason in reasons] == ["8", "9"]


def test_missing_scenario_is_inconclusive_and_still_counted(scenario: Make) -> None:
    """What was permitted whatever was promised is still counted; nothing is noted."""
    facts = facts_of(
        counts={"recovered": 2, "lost": 3},
        groups=[GroupFacts("g", True, {"redelivered": 5}, {"redelivered": 1})],
    )
    judgement = judge(facts, None)
    assert judgement.verdict == "inconclusive"
    assert judgement.reasons == [
        "scenario.yaml is missing: what was promised is not known, so only counts are given."
    ]
    assert judgement.notes == []
    assert dict(judgement.permitted) == {("recovered", None): 2, ("redelivered", "g"): 4}


LUCK = (
    "acks=1 lost nothing across 3 leader changes. That is luck, not safety: "
    "followers that keep up on a fast disk hide what acks=1 does not promise."
)


@pytest.mark.parametrize(
    ("acks", "facts", "notes"),
    [
        (1, {"leader_changes": {"orders": 3}}, [LUCK]),
        ("all", {"leader_changes": {"orders": 3}}, []),
        (1, {"leader_changes": {"sent-with-acks-all": 3}}, []),
        (1, {}, []),
        (1, {"leader_changes": {"orders": 3}, "counts": {"lost": 1}}, []),
        (1, {"end_offsets": 900, "end_offsets_known": True}, []),
        (1, {"end_offsets": 900, "end_offsets_known": True, "counts": {"lost": 90}}, []),
        (1, {"end_offsets": 900, "counts": {"lost": 100}}, []),
        (
            1,
            {"end_offsets": 985, "end_offsets_known": True, "counts": {"lost": 1600}},
            [
                "Subtracting end offsets from acknowledgements (990 - 985) gives 5 lost. "
                "The exact count is 1,600: end offsets also count what is no acknowledged message."
            ],
        ),
        (
            1,
            {"acked": 4000, "end_offsets": 5000, "end_offsets_known": True, "counts": {"lost": 1}},
            [
                "Subtracting end offsets from acknowledgements (4,000 - 5,000) gives -1,000 lost. "
                "The exact count is 1: end offsets also count what is no acknowledged message."
            ],
        ),
    ],
)
def test_notes_on_lucky_acks_1_and_high_watermark_arithmetic(
    acks: Any, facts: dict[str, Any], notes: list[str], scenario: Make
) -> None:
    """Luck is called luck, and what high-watermark arithmetic hides is reported."""
    assert judge(facts_of(**facts), scenario(acks=acks)).notes == notes


def test_share_release_possibly_held_by_a_killed_member_is_unclear(scenario: Make) -> None:
    """Counted next to what is a lost-release, and no part of it."""
    group = GroupFacts("billing", True, {"lost-release": 0}, unclear={"lost-release": 2})
    judgement = judge(facts_of(groups=[group]), scenario())
    assert judgement.verdict == "inconclusive"
    assert judgement.reasons == [
        "Group billing: 2 records came back to the group, below its limit, and were never delivered again: "
        "a member that was killed may have been handed them once more, for the last time."
    ]


def test_share_group_without_share_events_is_inconclusive(scenario: Make) -> None:
    """Deliveries alone do not say what became of them."""
    group = GroupFacts("billing", True, unrecorded=True)
    judgement = judge(facts_of(groups=[group]), scenario())
    assert (judgement.verdict, judgement.reasons) == (
        "inconclusive",
        [
            "Group billing: records were delivered, and no share_events are recorded: "
            "what was accepted, released or delivered without effect is unknown."
        ],
    )


@pytest.mark.parametrize("losses", [[], [Loss(0, "orders", "unexplained", 1)]])
def test_consequence_of_a_forbidden_loss_is_a_plain_violation(losses: list[Loss], scenario: Make) -> None:
    """Reported as if nothing were known of it."""
    group = GroupFacts("billing", True, {"unseen": 3})
    follows = [Consequence("unseen", "billing", 2, losses)]
    judgement = judge(facts_of(groups=[group], consequences=follows), scenario(acks="all"))
    assert judgement.reasons == ["Group billing: 3 stored messages were never delivered (unseen)."]
    assert judgement.permitted["unseen", "billing"] == 0


def test_a_hang_while_the_coordinator_may_have_been_down_is_unclear(scenario: Make) -> None:
    """Besides one that is too long in any case."""
    facts = facts_of(
        counts={"hanging-transaction": 3},
        flagged={"hanging-transaction": 1},
        unclear={"hanging-transaction": 1},
    )
    judgement = judge(facts, scenario())
    assert (judgement.verdict, judgement.permitted["hanging-transaction", None]) == ("violated", 1)
    assert [reason.split()[0] for reason in judgement.reasons] == ["1", "1", "1"]
    assert "should have aborted" in judgement.reasons[0]


@pytest.mark.parametrize(
    ("block", "why"),
    [
        (
            {"config": {"auto.offset.reset": "none"}},
            "auto.offset.reset=none promises nothing below the position that the group had committed before",
        ),
        (
            {"config": {"auto.offset.reset": "by_duration:PT1M"}},
            "auto.offset.reset=by_duration:pt1m promises nothing about what was stored longer than that "
            "before the group first read the partition",
        ),
        (
            {"type": "share", "group-config": {"share.auto.offset.reset": "latest"}},
            "share.auto.offset.reset=latest promises nothing about what was stored before the group first "
            "read the partition",
        ),
    ],
)
def test_reason_names_the_groups_own_auto_offset_reset(
    block: dict[str, Any], why: str, scenario: Make
) -> None:
    """The setting is named, and what it does not promise; another group's is not taken for it."""
    wanted = scenario()
    topics = {"topics": ["orders"], "config": {"auto.offset.reset": "latest"}}
    groups = [{"id": "audit", **topics}, {"id": "billing", "topics": ["orders"], **block}]
    raw = wanted.dump()
    raw["workload"]["groups"] = groups
    group = GroupFacts(
        "billing", True, {"unseen": 3}, excused={"unseen": {"too early": 2, "maybe too early": 1}}
    )
    judgement = judge(facts_of(groups=[group]), Scenario.model_validate(raw))
    assert judgement.reasons == [
        f"Group billing: 1 stored message was never delivered: {why}, and when that was is unknown.",
        f"Group billing: 2 stored messages were never delivered, permitted: {why}.",
    ]


def test_each_anomaly_has_one_rule() -> None:
    """In the file of its question."""
    ruled = [name for question in questions() for name in question.rules]
    assert sorted(ruled) == sorted(ANOMALIES)
