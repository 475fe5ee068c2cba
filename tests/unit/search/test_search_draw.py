"""Draws: a subset each time, few steps, the same again from the same seed, and steered by what was new."""

from __future__ import annotations

from collections import Counter
from random import Random

from fakes.trials import findings
from kaput.evidence.findings_faults import FaultFindings
from kaput.search.draw import Beliefs, draw
from kaput.search.loading import from_text
from kaput.search.signatures import reward, signatures
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


def test_a_draw_has_at_most_so_many_steps_and_keeps_the_limit_of_each_template() -> None:
    for seed in range(60):
        [choices] = draw(space(), Beliefs(), Random(seed))
        assert 1 <= len(choices.steps) <= 2
        assert sum(step["fault"] == "resize" for step in choices.steps) <= 1


def test_the_same_seed_and_beliefs_draw_the_same() -> None:
    beliefs = Beliefs.of([(["2 faults"], 1.0)])
    assert draw(space(), beliefs, Random(5)) == draw(space(), beliefs, Random(5))


def test_what_was_played_is_not_drawn_again_and_in_the_end_nothing_is_left() -> None:
    small = from_text("s", "s.yaml", WIDE.replace("at-most: 2", "at-most: 1").replace(", 2s, 3s, 4s", ""))
    played: set[str] = set()
    while drawn := draw(small, Beliefs(), Random(len(played)), played):
        played.add(drawn[0].key)
    assert 5 <= len(played) <= 9


def test_swarm_leaves_out_a_random_part_of_the_choices_each_time() -> None:
    drawn = [draw(space(), Beliefs(), Random(seed)) for seed in range(40)]
    settings = Counter(bool(choices.settings) for [choices] in drawn)
    assert min(settings[True], settings[False]) > 5


def test_choices_that_showed_something_new_are_drawn_more_often() -> None:
    wide = from_text("wide", "wide.yaml", WIDE)
    name = wide.templates[0].name
    beliefs = Beliefs.of(
        [([f"{name}.target=broker 2"], 1.0)] * 9 + [([f"{name}.target=broker {n}"], 0.0) for n in (1, 3)] * 9
    )
    drawn = [draw(wide, beliefs, Random(seed)) for seed in range(80)]
    targets = Counter(step["target"] for [choices] in drawn for step in choices.steps)
    uniform = [draw(wide, beliefs, Random(seed), uniform=True) for seed in range(80)]
    evenly = Counter(step["target"] for [choices] in uniform for step in choices.steps)
    assert targets["broker 2"] / targets.total() > 1.4 * evenly["broker 2"] / evenly.total()


def test_a_signature_tells_the_fault_the_state_that_it_met_and_the_next_event() -> None:
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
    found = signatures(events, findings(faults=[fault]))
    assert "kill at ISR 1, 1 out, then no leader" in found
    assert {"near: ISR of one", "near: no leader"} <= found


def test_the_reward_falls_with_each_time_and_slower_for_a_near_miss() -> None:
    assert reward(["a"], Counter()) == 0.5
    assert reward(["a"], Counter(a=3)) == 0.125
    assert reward(["near: a", "b"], Counter({"near: a": 15, "b": 3})) == 0.375
    assert reward([], Counter()) == 0
