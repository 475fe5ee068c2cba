"""Draws: few steps, new combinations, the same again from the same seed, and steered by rewards."""

from __future__ import annotations

import json
from collections import Counter
from itertools import combinations
from random import Random
from statistics import median
from typing import Any

import pytest

from fakes.trials import findings
from kaput.evidence.findings_claims import FaultFindings
from kaput.scenario.values import parse_duration_ms
from kaput.search.draw import BanditState, Played, draw
from kaput.search.experiments import EventRows, reward, signatures
from kaput.search.loading import from_text, load
from kaput.search.space import Choices, Space
from unit.search.test_search_space import space

WIDE = """\
version: 1
title: Twelve faults of which two matter together
base: leader-kill-acks-all
vary:
  at-most: 2
  faults:
    - {fault: [kill, stop, pause], target: [broker 1, broker 2, broker 3], at: [1s, 2s, 3s, 4s]}
"""


def test_draw_respects_at_most_and_template_limits() -> None:
    for seed in range(60):
        [choices] = draw(space(), [], Random(seed))
        assert 1 <= len(choices.steps) <= 2
        assert sum(step["fault"] == "resize" for step in choices.steps) <= 1


@pytest.mark.parametrize(("at", "drawn"), [("1s", 3), ("{event: election}", 1)])
def test_event_triggered_steps_are_drawn_alone(at: str, drawn: int) -> None:
    """Steps that wait for events, for example: the same ones with other settings would be played in turn."""
    text = (
        WIDE.replace("[1s, 2s, 3s, 4s]", at) + "  settings: {'workload.producers.0.rate': [300, 400, 500]}\n"
    )
    found = draw(from_text("s", "s.yaml", text), [], Random(1), together=3)
    assert len(found) == drawn
    assert len({json.dumps(choices.steps) for choices in found}) == 1


@pytest.mark.parametrize(("target", "placed"), [("broker 1", 3), ("leader-of orders/0", 1)])
def test_batch_with_a_leader_target_shares_its_assignment(target: str, placed: int) -> None:
    """A fault on broker 1 hits topics with any leader; one on a leader those with the same."""
    one = f"    - {{fault: [kill, stop, pause], target: {target}, at: [1s, 2s, 3s, 4s], for: 1s}}\n"
    settings = "{topics.0.assignment: [[[2, 3, 1]], [[3, 1, 2]]], workload.producers.0.rate: [300, 400]}"
    text = WIDE.partition("    - {fault")[0] + one + f"  settings: {settings}\n"
    text = text.replace("at-most: 2", "at-most: 1")
    found = draw(from_text("s", "s.yaml", text), [], Random(1), together=8)
    assert len({str(choices.settings.get("topics.0.assignment")) for choices in found}) == placed
    assert len(found) > 2


def test_same_seed_and_history_draw_the_same() -> None:
    [first] = draw(space(), [], Random(4))
    assert draw(space(), [Played(first, 1.0)], Random(5)) == draw(space(), [Played(first, 1.0)], Random(5))


def test_what_is_being_played_counts_as_tried() -> None:
    wide = from_text("s", "s.yaml", WIDE.replace("at-most: 2", "at-most: 1"))
    kills = [
        choices
        for seed in range(60)
        for choices in draw(wide, [], Random(seed))
        if choices.steps[0]["fault"] == "kill"
    ]
    again = [draw(wide, [], Random(seed), begun=kills)[0].steps[0]["fault"] for seed in range(40)]
    assert len(kills) > 10 and again.count("kill") < 5


def test_draws_do_not_repeat_until_the_space_is_exhausted() -> None:
    small = from_text("s", "s.yaml", WIDE.replace("at-most: 2", "at-most: 1").replace(", 2s, 3s, 4s", ""))
    played: set[str] = set()
    while drawn := draw(small, [], Random(len(played)), played):
        played.add(drawn[0].key)
    assert 5 <= len(played) <= 9


def test_steps_are_redrawn_with_other_settings_when_exhausted() -> None:
    """With other settings: every combination is played in the end."""
    text = WIDE.replace("[kill, stop, pause]", "kill").replace("[1s, 2s, 3s, 4s]", "1s")
    settings = "  settings: {workload.producers.0.rate: [300, 400]}\n"
    small = from_text("s", "s.yaml", text.replace("at-most: 2", "at-most: 1") + settings)
    played: list[Choices] = []
    while drawn := draw(small, [], Random(len(played)), {each.key for each in played}):
        played += drawn
    assert len({str(each.steps) for each in played[:3]}) == 3
    assert len(played) == 9


def test_faults_on_one_target_never_share_an_event_trigger() -> None:
    text = WIDE.replace("[1s, 2s, 3s, 4s]", "[{event: election}, {event: isr-shrink}], for: 1s")
    wide = from_text("s", "s.yaml", text)
    drawn = [choices for seed in range(60) for choices in draw(wide, [], Random(seed))]
    pairs = [choices.steps for choices in drawn if len(choices.steps) == 2]
    assert pairs and all(one["target"] != two["target"] or one["at"] != two["at"] for one, two in pairs)


def test_swarm_testing_omits_a_random_subset_of_choices() -> None:
    drawn = [draw(space(), [], Random(seed)) for seed in range(40)]
    settings = Counter(bool(choices.settings) for [choices] in drawn)
    assert min(settings[True], settings[False]) > 5


def test_bandit_samples_rewarded_choices_higher() -> None:
    beliefs = BanditState.of([(["a"], 1.0), (["b"], 0.0)] * 9)
    samples = [(beliefs.sample("a", Random(n)), beliefs.sample("b", Random(n))) for n in range(50)]
    assert all(rewarded > missed for rewarded, missed in samples)


def test_choices_that_were_rewarded_are_drawn_more_often() -> None:
    wide = from_text("wide", "wide.yaml", WIDE)
    name = wide.templates[0].name
    judged = [
        Played(Choices((), {}, (f"{name}.target=broker {n}",)), float(n == 2))
        for n in (1, 2, 3)
        for _ in range(9)
    ]
    rewarded = [Random(seed) for seed in range(800) if Random(seed).random() < 1 / 8]
    drawn = [draw(wide, judged, rng) for rng in rewarded]
    targets = Counter(step["target"] for [choices] in drawn for step in choices.steps)
    assert targets["broker 2"] > 1.5 * max(targets["broker 1"], targets["broker 3"])


def test_draws_cover_all_pairs_of_choices_early() -> None:
    """36 variants of a step, two in each experiment: 33 pairs of a fault, a target and a time."""
    wide = from_text("wide", "wide.yaml", WIDE)
    steered, uniform = (
        median(_draws_until_covered(wide, n, each) for n in range(8)) for each in (False, True)
    )
    assert steered < 0.75 * uniform


def _draws_until_covered(wide: Space, seed: int, uniform: bool) -> int:
    pairs: set[tuple[object, object]] = set()
    judged: list[Played] = []
    while len(pairs) < 3 * 3 + 3 * 4 + 3 * 4:
        [choices] = draw(wide, judged, Random(f"{seed}/{len(judged)}"), uniform=uniform)
        judged.append(Played(choices, 0.1))
        for step in choices.steps:
            pairs.update(combinations((step["fault"], step["target"], step["at"]), 2))
    return len(judged)


def test_kinds_of_steps_that_do_not_go_together_are_drawn_less_often() -> None:
    """After a kill of the only broker, nothing else has an effect."""
    other = "    - {fault: leave, target: member 1 of billing, at: [1s, 2s], for: [1s, 2s]}\n"
    wide = from_text("wide", "wide.yaml", WIDE + other)
    both = draw(wide, [], Random(1))[0].arms[:1] + tuple(template.name for template in wide.templates)
    without, tried = (
        sum(
            len({step["fault"] == "leave" for step in choices.steps}) == 2
            for n in range(100)
            for choices in draw(wide, [Played(Choices((), {}, both), 0.0, missed=[1])] * failed, Random(n))
        )
        for failed in (0, 20)
    )
    assert tried < without / 3


def test_faults_in_the_protocol_go_with_other_faults_at_the_same_time() -> None:
    """Two in different requests, or one with a pause; not two in the same."""
    text = WIDE.partition("    - {fault")[0] + (
        "    - {fault: protocol, target: broker 1, api: [Produce, Fetch], "
        "what: drop-request, at: 1s, for: 6s}\n"
        "    - {fault: pause, target: broker 1, at: 2s, for: 1s}\n"
    )
    found = from_text("s", "s.yaml", text.replace("vary:", "set: {cluster.proxies: clients}\nvary:"))
    drawn = [draw(found, [], Random(seed))[0].steps for seed in range(40)]
    together = {tuple(sorted(step.get("api", "pause") for step in steps)) for steps in drawn}
    assert {("Fetch", "Produce"), ("Produce", "pause"), ("Fetch", "pause")} <= together
    assert not together & {("Fetch", "Fetch"), ("Produce", "Produce"), ("pause", "pause")}


def test_signature_has_fault_cluster_state_and_next_event() -> None:
    def event(kind: str, at_ns: int, **more: object) -> dict[str, object]:
        nothing = dict.fromkeys(("broker", "topic", "partition", "leader", "leader_epoch", "isr"))
        return {**nothing, "kind": kind, "at_ns": at_ns, **more}

    fault = FaultFindings(
        id="1", fault="kill", target="broker 1", brokers=[1], bit=True, proof="", injected_ns=50,
        effective_ns=60, healed_ns=90,
    )  # fmt: skip
    place = {"topic": "orders", "partition": 0, "leader": 1, "leader_epoch": 0}
    events = [
        event("leader", 1, **place, isr=[1, 2, 3]),
        event("isr", 30, **place, isr=[1]),
        event("stopped", 20, broker=2),
        event("leader", 70, **{**place, "leader": -1}, isr=[1]),
    ]
    found = signatures(EventRows(sorted(events, key=lambda row: row["at_ns"])), findings(faults=[fault]))
    assert "kill at ISR 1, 1 out, then no leader" in found
    assert {"near: ISR of one", "near: no leader"} <= found


def test_reward_decays_with_repeats_and_slower_for_near_misses() -> None:
    assert reward(["a"], Counter()) == pytest.approx(0.3)
    assert reward(["a"], Counter(a=3)) == pytest.approx(0.3 / 4)
    assert reward(["near: a", "b"], Counter({"near: a": 99, "b": 3})) == pytest.approx(0.7 / 10 + 0.3 / 4)
    assert reward(["near: a", "near: b"], Counter({"near: a": 99})) == pytest.approx(0.7)
    assert reward([], Counter()) == 0


def test_experiment_with_an_ineffective_fault_earns_no_reward() -> None:
    """A kill comes close to a loss whatever it is drawn with; a request that nobody sends then does not."""
    killed = FaultFindings(
        id="1", fault="kill", target="broker 1", brokers=[1], bit=True, proof="", injected_ns=50,
        effective_ns=60, healed_ns=90,
    )  # fmt: skip
    unfelt = killed.model_copy(update={"id": "2", "fault": "protocol", "bit": False, "effective_ns": None})
    unknown = findings(faults=[killed, unfelt], promise="inconclusive")
    assert reward(["near: no leader"], Counter(), (1,), unknown) == 0
    as_if_absent = unknown.model_copy(update={"promise": "held"})
    assert reward(["near: no leader"], Counter(), (1,), as_if_absent) == pytest.approx(0.7)


def test_choices_whose_steps_meet_nothing_are_drawn_less_often() -> None:
    """No client asks for metadata in these windows."""
    text = WIDE.partition("    - {fault")[0] + (
        "    - {fault: protocol, target: broker 1, api: [Produce, Fetch, Metadata], "
        "what: drop-request, at: [1s, 2s, 3s, 4s], for: 1s}\n"
    )
    found = from_text("s", "s.yaml", text.replace("vary:", "set: {cluster.proxies: clients}\nvary:"))
    with_missed, without = (
        sum(step["api"] == "Metadata" for choices in drawn for step in choices.steps)
        for drawn in (_drawn_with(found, learns) for learns in (True, False))
    )
    assert 0 < with_missed < without / 2


def _drawn_with(found: Space, learns: bool) -> list[Choices]:
    judged: list[Played] = []
    for n in range(40):
        for choices in draw(found, judged, Random(n)):
            missed = [place for place, step in enumerate(choices.steps) if step["api"] == "Metadata"]
            judged.append(Played(choices, 0.3, missed if learns else ()))
    return [played.choices for played in judged]


def test_search_finds_a_planted_bug_in_fewer_draws_than_uniform() -> None:
    steered = [_draws_until_loss(seed, uniform=False) for seed in range(16)]
    uniform = [_draws_until_loss(seed, uniform=True) for seed in range(16)]
    assert median(steered) < 0.6 * median(uniform)


def _draws_until_loss(seed: int, uniform: bool) -> int:
    """In a model of KIP-966: both followers are out, then the leader loses power."""
    last = load("last-replica-standing")
    judged: list[Played] = []
    seen: Counter[str] = Counter()
    for number in range(80):
        [choices] = draw(last, judged, Random(f"{seed}/{number}"), uniform=uniform)
        found, lost = _played(choices)
        if lost:
            return number + 1
        judged.append(Played(choices, reward(found, seen)))
        seen.update(found)
    return 80


def _played(choices: Choices) -> tuple[set[str], bool]:
    found, lost = set(), False
    out: dict[int, tuple[int, int]] = {}
    for step in sorted(choices.steps, key=lambda each: (isinstance(each["at"], dict), str(each["at"]))):
        begin, lasts = _begin(step["at"], out), parse_duration_ms(step["for"])
        if begin is None:
            continue
        one = 2 + choices.steps.index(step) % 2
        brokers = {"leader-of": [1], "follower-of": [one], "followers-of": [2, 3]}[step["target"].split()[0]]
        gone = {broker for broker, (since, until) in out.items() if since <= begin < until}
        found.add(f"{step['fault']} at ISR {3 - len(gone - {1})}, {len(gone)} out")
        lost |= step["fault"] == "power-loss" and brokers == [1] and gone == {2, 3}
        session = 6000 if step["fault"] == "pause" else 0
        if lasts > session:
            out |= dict.fromkeys(brokers, (begin + session, begin + lasts + 2000))
    if {2, 3} <= set(out) and max(out[2][0], out[3][0]) < min(out[2][1], out[3][1]):
        found.add("near: ISR of one")
    return found, lost


def _begin(at: str | dict[str, Any], out: dict[int, tuple[int, int]]) -> int | None:
    """When a step begins; None: never. No leader is elected before the leader is hit."""
    if isinstance(at, str):
        return parse_duration_ms(at)
    shrinks = sorted(since for broker, (since, _) in out.items() if broker != 1)
    number = at.get("nth", 1)
    return shrinks[number - 1] if at["event"] == "isr-shrink" and len(shrinks) >= number else None
