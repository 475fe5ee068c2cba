"""Rules scored and tuned on recordings whose faults, and what these needed, are known."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from fakes.alerting import lag_rule, rules_of, sample
from kaput.core import SECOND
from kaput.errors import UsageError
from kaput.evidence.findings_claims import FaultFindings
from kaput.monitor.alerts.rules import AlertRules
from kaput.monitor.alerts.scoring.recordings import Recording
from kaput.monitor.alerts.scoring.score import (
    Need,
    RecordedRun,
    ScoredFault,
    _needs,
    by_rule,
    candidates,
    noticed_by,
    score_document,
    scored,
    tuned,
    tuning_document,
)

SIGNAL = "kaput_unacknowledged_seconds"  # notices writes
RULE = {"name": "silent", "signal": SIGNAL, "above": 10}


def run(values: Sequence[float], *faults: ScoredFault, name: str = "r", signal: str = SIGNAL) -> RecordedRun:
    """One value a second, and these faults."""
    labels = {"topic": "t", "partition": "0"} if signal == SIGNAL else {}
    steps = {at * SECOND: [sample(value, at, signal, **labels)] for at, value in enumerate(values)}
    return RecordedRun(name, "scenario", Recording(steps), faults)


def fault(from_s: int, until_s: int, *needs: Need, id_: str = "1-kill") -> ScoredFault:
    return ScoredFault(id_, "kill", "broker 1", from_s * SECOND, until_s * SECOND, needs)


QUIET, LONG = [0.0] * 5, [20.0] * 5


def figures(rules: AlertRules, *runs: RecordedRun) -> tuple[int, int, int, int]:
    """Right, needless, false, missed of the first rule."""
    one = by_rule(rules, [scored(rules, each) for each in runs])[0]
    return one.right, one.needless, one.false, one.missed


class TestScores:
    def test_alert_for_fault_needing_action_is_right(self) -> None:
        rules = rules_of(RULE)
        score = scored(rules, run([*QUIET, *LONG, *QUIET], fault(3, 8, "writes")))
        (rung,) = score.rung
        assert (rung.judgement, rung.detect_s, rung.resolve_s) == ("right", 2, 2)
        assert score.unnoticed() == []
        assert figures(rules, score.run) == (1, 0, 0, 0)

    def test_alert_for_self_healing_fault_is_needless(self) -> None:
        assert figures(rules_of(RULE), run([*QUIET, *LONG, *QUIET], fault(3, 8))) == (0, 1, 0, 0)

    def test_alert_unrelated_to_the_needed_action_is_needless(self) -> None:
        assert figures(rules_of(RULE), run([*QUIET, *LONG], fault(3, 8, "reads"))) == (0, 1, 0, 0)

    def test_alert_without_fault_is_false(self) -> None:
        assert figures(rules_of(RULE), run([*QUIET, *LONG])) == (0, 0, 1, 0)

    def test_alert_with_condition_before_the_fault_is_false(self) -> None:
        """Though it fires after the fault has begun."""
        rules = rules_of(RULE | {"for": "4s"})
        assert figures(rules, run([*LONG, *LONG], fault(2, 9, "writes"))) == (0, 0, 1, 1)

    def test_fault_needing_action_without_alert_is_missed(self) -> None:
        rules = rules_of(RULE)
        score = scored(rules, run([*QUIET, *QUIET], fault(3, 8, "writes")))
        assert [each.id for each in score.unnoticed()] == ["1-kill"]
        assert figures(rules, score.run) == (0, 0, 0, 1)

    def test_fault_is_noticed_when_any_rule_fires(self) -> None:
        rules = rules_of(RULE, RULE | {"name": "never", "above": 99})
        score = scored(rules, run([*QUIET, *LONG], fault(3, 8, "writes")))
        assert score.unnoticed() == []
        assert [rule.name for rule in score.missed["1-kill"]] == ["never"]

    def test_inhibited_alert_is_not_missed(self) -> None:
        rules = rules_of(RULE, RULE | {"name": "also", "unless": [{"rule": "silent"}]})
        score = scored(rules, run([*QUIET, *LONG], fault(3, 8, "writes")))
        assert [each.episode.rule.name for each in score.rung] == ["silent"]
        assert score.missed == {"1-kill": []}

    def test_cause_specific_rule_has_no_misses(self) -> None:
        """No controller is one cause of many; if it rings for a fault that needed somebody it is right."""
        rules = rules_of({"name": "c", "signal": "kaput_active_controllers", "at-most": 0})
        silent = run([1.0] * 9, fault(3, 8, "writes"), signal="kaput_active_controllers")
        rings = run([1.0] * 4 + [0.0] * 5, fault(3, 8, "writes"), signal="kaput_active_controllers")
        assert figures(rules, silent, rings) == (1, 0, 0, 0)
        assert by_rule(rules, [scored(rules, rings)])[0].recall is None

    def test_alert_firing_at_end_of_run_is_not_resolved(self) -> None:
        (rung,) = scored(rules_of(RULE), run([*QUIET, *LONG], fault(3, 8, "writes"))).rung
        assert rung.resolve_s is None

    def test_overlapping_faults_score_the_one_needing_action(self) -> None:
        faults = [fault(3, 8, "writes"), fault(4, 8, id_="2-kill")]
        (rung,) = scored(rules_of(RULE), run([*QUIET, *LONG], *faults)).rung
        assert (rung.judgement, rung.fault) == ("right", faults[0])

    def test_one_alert_covers_overlapping_faults(self) -> None:
        faults = [fault(3, 8, "writes"), fault(4, 8, "writes", id_="2-kill")]
        rules = rules_of(RULE)
        score = scored(rules, run([*QUIET, *LONG], *faults))
        assert (score.unnoticed(), figures(rules, score.run)) == ([], (1, 0, 0, 0))

    def test_unrecorded_signal_or_too_long_for_is_not_scored(self) -> None:
        rules = rules_of(RULE, lag_rule(), RULE | {"name": "slow", "for": "10m"})
        score = scored(rules, run([*QUIET, *LONG], fault(3, 8, "writes")))
        assert score.not_played == {
            "lag": "runs do not record their signals",
            "slow": "the run is shorter than `for`",
        }
        assert [each.rule.name for each in by_rule(rules, [score])] == ["silent"]

    def test_no_playable_rule_gives_empty_score(self) -> None:
        score = scored(rules_of(lag_rule()), run(QUIET))
        assert (score.rung, by_rule(rules_of(lag_rule()), [score])) == ([], [])

    def test_score_as_json(self) -> None:
        rules = rules_of(RULE)
        scores = [scored(rules, run([*QUIET, *LONG, *QUIET], fault(3, 8, "writes")))]
        document = json.loads(json.dumps(score_document(scores, by_rule(rules, scores))))
        assert document["runs"][0]["faults"][0]["alerts"][0]["judgement"] == "right"
        assert document["rules"][0] == document["rules"][0] | {"precision": 1, "recall": 1, "detect_s": 2}


def _silent(*conditions: str) -> dict[str, Any]:
    """A silence of 9 s that waited for these, each 1 s long."""
    waits = [
        {"condition": c, "from_ns": n * SECOND, "to_ns": (n + 1) * SECOND, "faults": ["1"] * (c == "heal")}
        for n, c in enumerate(conditions)
    ]
    met = [condition for condition in conditions if condition != "client"]
    return {"unavailable_ms": 9000, "unavailable_ended_by": met[-1], "unavailable_waited_for": waits}


class TestNeeds:
    @pytest.mark.parametrize(
        ("found", "needs"),
        [
            ({}, []),
            (_silent("election", "client"), []),
            (_silent("heal", "client"), ["writes"]),
            (_silent("heal", "election"), ["writes"]),  # the election had to wait for the heal
            (_silent("isr", "client"), []),
            ({"unavailable_ms": 9000, "unavailable_ended_by": "unknown"}, []),
            ({"unavailable_ms": 9000, "unavailable_ended_by": None}, ["writes"]),
            ({"unavailable_ms": 500, "unavailable_ended_by": None}, []),
            ({"lost": 3}, ["writes"]),
            ({"lag_ended_by": "heal"}, ["reads"]),
            ({"lag_ended_by": "unknown"}, []),
            ({"stuck": {"billing": 3}}, ["reads"]),
            ({"isr_ended_by": "heal"}, ["reserve"]),
        ],
    )
    def test_impact_ended_only_by_heal_needed_action(self, found: dict, needs: list[str]) -> None:
        times = {"injected_ns": 0, "effective_ns": 0, "healed_ns": 9}
        name = {
            "id": "1-kill",
            "fault": "kill",
            "target": "broker 1",
            "brokers": [1],
            "bit": True,
            "proof": "",
        }
        assert _needs(FaultFindings(**name, **times, **found)) == needs

    @pytest.mark.parametrize(
        ("signal", "need"),
        [
            ("kaput_messages_acked_total", "writes"), ("kaput_offline_partitions", "writes"),
            ("kaput_consumer_lag_seconds", "reads"), ("kaput_group_rebalancing", "reads"),
            ("kaput_broker_up", "reserve"), ("kaput_broker_answers", "reserve"),
            ("kaput_log_dirs_offline", "reserve"),
        ],
    )  # fmt: skip
    def test_need_detected_by_each_signal(self, signal: str, need: Need) -> None:
        assert noticed_by(signal) == need


# Two outages of 9 s that an election ended, one of 20 s that only the heal did.
def outage(seconds: int) -> list[float]:
    return [*QUIET, *(float(second) for second in range(seconds)), *QUIET]


RUNS = [
    run(outage(9), fault(5, 9)), run(outage(10), fault(5, 9)),
    run(outage(21), fault(5, 26, "writes")), run(QUIET * 5),
]  # fmt: skip


class TestTuning:
    def test_separating_threshold_is_recommended(self) -> None:
        (rule,) = rules = rules_of(RULE | {"above": 3})
        tuning = tuned(rules, rule, RUNS, [3, 5, 8, 9, 12, 15, 30])
        by_threshold = {point.threshold: point for point in tuning.points}
        assert [by_threshold[each].precision for each in (3, 8, 9, 15, 30)] == [1 / 3, 1 / 2, 1, 1, None]
        assert [by_threshold[each].recall for each in (3, 15, 30)] == [1, 1, 0]
        assert tuning.recommended is not None
        assert tuning.recommended.threshold == 12, "9 is sooner, but next to one that is wrong"
        assert tuning.why.endswith("thresholds from 9 to 15 are right as often")
        assert tuning.current.threshold == 3
        assert json.loads(json.dumps(tuning_document(tuning)))["recommended"]["threshold"] == 12

    def test_tuning_also_varies_for(self) -> None:
        (rule,) = rules = rules_of(RULE | {"above": 1})
        tuning = tuned(rules, rule, RUNS, [1], [0, 10_000])
        assert [(point.rule.for_, point.needless) for point in tuning.points] == [(0, 2), (10_000, 0)]
        assert tuning.recommended is not None and tuning.recommended.rule.for_ == 10_000

    def test_already_optimal_rule_is_kept(self) -> None:
        (rule,) = rules = rules_of(RULE | {"above": 12})
        tuning = tuned(rules, rule, RUNS, [3, 5, 8, 9, 15, 30])
        assert tuning.recommended is tuning.current
        assert tuning.why.startswith("no other is better")

    def test_fastest_threshold_wins_without_equal_neighbors(self) -> None:
        (rule,) = rules = rules_of(RULE | {"above": 3})
        tuning = tuned(rules, rule, RUNS, [9, 30])
        assert tuning.recommended is not None and tuning.recommended.threshold == 9
        assert tuning.why.endswith("no neighboring threshold is as good")

    def test_no_recommendation_without_relevant_faults(self) -> None:
        (rule,) = rules = rules_of(RULE)
        tuning = tuned(rules, rule, RUNS[:2], [5])
        assert (tuning.recommended, tuning.why) == (
            None, "none of these runs has a fault that this rule should detect",
        )  # fmt: skip

    def test_for_longer_than_every_run_is_not_compared(self) -> None:
        (rule,) = rules = rules_of(RULE | {"for": "10m"})
        tuning = tuned(rules, rule, RUNS, [5], [0])
        assert {point.rule.for_ for point in tuning.points} == {0}
        assert tuning.recommended is not None and tuning.recommended.rule.for_ == 0
        assert "shorter than its `for`" in tuned(rules, rule, RUNS).why

    def test_candidates_are_round_numbers_from_typical_to_worst(self) -> None:
        """Not beyond what is usual: how fast it catches up after an outage says nothing of the boundary."""
        (rule,) = rules = rules_of(RULE)
        assert candidates(rules, rule, RUNS) == list(range(0, 21))
        (below,) = rules = rules_of(RULE | {"above": None, "below": 800})
        made_up = run([1000.0] * 9 + [0.0, 400.0, 3000.0])
        assert candidates(rules, below, [made_up]) == list(range(0, 1050, 50))

    def test_tuning_scales_clear_with_the_threshold(self) -> None:
        """Else a threshold below it would be no threshold."""
        (rule,) = rules = rules_of(RULE | {"clear": 5})
        tuning = tuned(rules, rule, RUNS, [4])
        assert [(point.rule.above, point.rule.clear) for point in tuning.points] == [
            (4, 2),
            (10, 5),
        ]

    def test_untunable_rule_is_rejected(self) -> None:
        rules = rules_of({"name": "blind", "signal": SIGNAL, "absent": "9s"}, lag_rule())
        with pytest.raises(UsageError, match="has no threshold"):
            tuned(rules, rules.by_name["blind"], RUNS)
        with pytest.raises(UsageError, match="none of these runs records kaput_mirror_lag_seconds"):
            tuned(rules, rules.by_name["lag"], RUNS)
