"""Each rule of the verdict, on facts written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from kaput.scenario.model import Scenario
from kaput.verdict.facts import Circumstances, Displaced, Facts, FaultFacts, GroupFacts, Loss, Reordered
from kaput.verdict.judge import Judgement, judge


def _scenario(
    expect: dict[str, Any] | None = None, topic: dict[str, Any] | None = None, **producer: Any
) -> Scenario:
    return Scenario.model_validate(
        {
            "version": 1,
            "title": "t",
            "topics": [{"name": "orders", "config": topic or {}}],
            "workload": {"producers": [{"topic": "orders", "messages": 100, **producer}]},
            "expect": expect or {},
        }
    )


def _facts(**more: Any) -> Facts:
    known = {"state": "sealed", "sent": 100, "acked": 100} | more
    return Facts(**known)


def _loss(cause: str = "deposed-leader", count: int = 5, **more: Any) -> dict[str, Any]:
    return {"counts": {"lost": count}, "losses": [Loss(0, "orders", cause, count, **more)]}


def _permitted(judgement: Judgement, name: str, group: str | None = None) -> int:
    return judgement.permitted.get((name, group), 0)


ALONE = Circumstances(isr_of_one=True)
UNCLEAN = {"unclean.leader.election.enable": True}


@pytest.mark.parametrize(
    ("acks", "loss", "config", "verdict"),
    [
        (0, _loss("acks-0"), {}, "held"),
        (0, _loss("unexplained"), {}, "held"),
        (1, _loss("deposed-leader"), {}, "held"),
        (1, _loss("unclean-election"), {}, "held"),
        (1, _loss("unexplained"), {}, "violated"),
        (1, _loss("unexplained", known=Circumstances(leaders_known=False)), {}, "inconclusive"),
        ("all", _loss("deposed-leader"), {}, "violated"),
        ("all", _loss("unexplained"), {}, "violated"),
        ("all", _loss("unexplained", known=Circumstances(leaders_known=False)), {}, "violated"),
        ("all", _loss("unclean-election"), {}, "violated"),
        ("all", _loss("unclean-election"), UNCLEAN, "held"),
        ("all", _loss("deposed-leader"), UNCLEAN, "violated"),
        ("all", _loss("deposed-leader", known=ALONE), {}, "held"),
        (
            "all",
            _loss("deposed-leader", known=ALONE),
            {"min.insync.replicas": 2},
            "violated",
        ),
    ],
)
def test_losses(acks: Any, loss: dict[str, Any], config: dict[str, Any], verdict: str) -> None:
    """What acks and the topic promise decides whether a loss is permitted."""
    judgement = judge(_facts(**loss), _scenario(acks=acks, topic=config))
    assert judgement.verdict == verdict, judgement.reasons
    assert _permitted(judgement, "lost") == (5 if verdict == "held" else 0)


@pytest.mark.parametrize(
    ("producer", "verdict"),
    [
        ({}, "held"),
        ({"idempotence": True}, "violated"),
        ({"config": {"retries": 0}}, "violated"),
        ({"config": {"message.send.max.retries": 0}}, "violated"),
    ],
)
def test_duplicates(producer: dict[str, Any], verdict: str) -> None:
    """Duplicates are permitted where retries happen without idempotence, and nowhere else."""
    judgement = judge(_facts(counts={"duplicate": 3}, duplicates={0: 3}), _scenario(**producer))
    assert judgement.verdict == verdict
    assert _permitted(judgement, "duplicate") == (3 if verdict == "held" else 0)


@pytest.mark.parametrize(
    ("producer", "across", "verdict"),
    [
        ({}, False, "held"),
        ({"config": {"max.in.flight": 1}}, False, "violated"),
        ({"config": {"max.in.flight.requests.per.connection": 1}}, True, "held"),
        ({"idempotence": True}, True, "violated"),
    ],
)
def test_reordered(producer: dict[str, Any], across: bool, verdict: str) -> None:
    """Reordering is permitted without idempotence, in flight beside others or across a change of leader."""
    facts = _facts(counts={"reordered": 2}, reordered=[Reordered(0, 2, across)])
    assert judge(facts, _scenario(**producer)).verdict == verdict


def test_recovered_is_permitted() -> None:
    """An unknown outcome that turns out stored is no error."""
    judgement = judge(_facts(acked=98, counts={"recovered": 2}), _scenario())
    assert (judgement.verdict, _permitted(judgement, "recovered")) == ("held", 2)


@pytest.mark.parametrize(
    ("acks", "cause", "verdict"), [(1, "deposed-leader", "held"), ("all", "deposed-leader", "violated")]
)
def test_inconsistent_offsets_follow_their_loss(acks: Any, cause: str, verdict: str) -> None:
    """An offset given twice is permitted for the same cause that would permit the loss."""
    facts = _facts(counts={"inconsistent-offset": 4}, displaced=[Displaced("orders", 0, cause, 4)])
    judgement = judge(facts, _scenario(acks=acks))
    assert judgement.verdict == verdict
    assert _permitted(judgement, "inconsistent-offset") == (4 if verdict == "held" else 0)


def test_inconsistent_offset_of_nobodys_acknowledgement_is_a_violation() -> None:
    """A delivery that contradicts the log has no acknowledgement to excuse it."""
    facts = _facts(counts={"inconsistent-offset": 1}, displaced=[Displaced("orders", None, "unexplained", 1)])
    assert judge(facts, _scenario(acks=1)).verdict == "violated"


@pytest.mark.parametrize("name", ["ghost", "phantom", "corrupt"])
def test_never_permitted(name: str) -> None:
    """No configuration allows these."""
    judgement = judge(_facts(counts={name: 1}), _scenario(acks=0))
    assert (judgement.verdict, _permitted(judgement, name)) == ("violated", 0)
    assert name in judgement.reasons[0]


@pytest.mark.parametrize(
    "name", ["unseen", "poll-skip", "nonmonotonic-poll", "commit-ahead", "unassigned-delivery"]
)
def test_never_permitted_in_a_group(name: str) -> None:
    """No group may show these."""
    facts = _facts(groups=[GroupFacts("billing", True, {name: 2})])
    judgement = judge(facts, _scenario())
    assert judgement.verdict == "violated"
    assert "billing: 2" in judgement.reasons[0]


@pytest.mark.parametrize(("after_commit", "verdict"), [(0, "held"), (1, "violated")])
def test_redelivery_is_permitted_before_the_commit(after_commit: int, verdict: str) -> None:
    """At-least-once delivery covers what had not been committed, and nothing else."""
    facts = _facts(groups=[GroupFacts("billing", True, {"redelivered": 7}, after_commit)])
    judgement = judge(facts, _scenario())
    assert judgement.verdict == verdict
    assert _permitted(judgement, "redelivered", "billing") == 7 - after_commit


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (_facts(sent=0, acked=0), "no message was sent"),
        (_facts(unread=4), "not read to its end"),
        (_facts(state="recording"), "never finished"),
        (_facts(groups=[GroupFacts("billing", False)]), "had not read everything"),
        (_facts(faults=[FaultFacts("1-kill", "kill", "broker 1", False, "still alive", 5)]), "had no effect"),
        (_facts(deaths=[(2, 1_700_000_000_000_000_000)]), "broker 2 stopped outside any fault"),
        (_facts(troubles=["broker 3 ran out of disk"]), "ran out of disk"),
    ],
)
def test_doubts_make_a_run_inconclusive(facts: Facts, words: str) -> None:
    """Where the lab failed or evidence is missing, nothing is held."""
    judgement = judge(facts, _scenario())
    assert judgement.verdict == "inconclusive"
    assert words.lower() in judgement.reasons[0].lower()


def test_fault_that_was_never_injected_is_a_doubt() -> None:
    """A scenario's fault that the evidence does not know proves nothing."""
    document = _scenario().dump() | {"faults": [{"at": "1s", "fault": "noop"}]}
    judgement = judge(_facts(), Scenario.model_validate(document))
    assert judgement.verdict == "inconclusive"
    assert "never injected" in judgement.reasons[0]


def test_violated_beats_inconclusive() -> None:
    """A proven violation stands, whatever else is in doubt; both are told."""
    judgement = judge(_facts(unread=1, counts={"ghost": 1}), _scenario())
    assert judgement.verdict == "violated"
    assert len(judgement.reasons) == 2


@pytest.mark.parametrize(
    ("expect", "lost", "verdict"),
    [
        ({"lost": ">0"}, 5, "held"),
        ({"lost": ">0"}, 0, "inconclusive"),
        ({"lost": 0}, 5, "violated"),
        ({"lost": 5}, 5, "held"),
        ({"lost": 6}, 5, "inconclusive"),
        ({"lost": "<=5%"}, 5, "held"),
        ({"lost": "<=4%"}, 5, "violated"),
        ({"lost": "<5"}, 5, "violated"),
        ({"verdict": "held"}, 5, "held"),
        ({"verdict": "violated"}, 5, "inconclusive"),
    ],
)
def test_expectations(expect: dict[str, Any], lost: int, verdict: str) -> None:
    """More than expected is violated; less, or another verdict than expected, is inconclusive."""
    facts = _facts(**_loss(count=lost)) if lost else _facts()
    assert judge(facts, _scenario(expect, acks=1)).verdict == verdict


def test_without_scenario_only_counts_are_given() -> None:
    """A run without its scenario is never violated, and never held."""
    judgement = judge(_facts(counts={"ghost": 1}), None)
    assert judgement.verdict == "inconclusive"
    assert "scenario.yaml" in judgement.reasons[0]


def test_producer_outside_the_scenario_is_a_doubt() -> None:
    """What a stranger was promised is not known."""
    facts = _facts(counts={"lost": 1}, losses=[Loss(9, "orders", "deposed-leader", 1)])
    assert judge(facts, _scenario()).verdict == "inconclusive"


def test_luck_is_called_luck() -> None:
    """acks=1 that lost nothing across a change of leader is not called safe."""
    judgement = judge(_facts(leader_changes=1), _scenario(acks=1))
    assert judgement.verdict == "held"
    assert "luck" in judgement.notes[0]


def test_hidden_losses_are_told() -> None:
    """Where stored but unacknowledged messages hide losses, the note says both numbers."""
    facts = _facts(**_loss(count=5), end_offsets=98, end_offsets_known=True)
    judgement = judge(facts, _scenario(acks=1))
    assert "says 2 lost. The exact count is 5" in judgement.notes[0]
