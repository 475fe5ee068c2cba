"""The states of alerts, case by case."""

from __future__ import annotations

import pytest

from fakes.alerting import LAG, NAN, UP, changes, lag_rule, played, rules_of, sample, stepped
from kaput.core import SECOND
from kaput.monitor.alerts.engine import Engine


def test_alert_without_for_fires_and_resolves_immediately() -> None:
    assert played(rules_of(lag_rule()), [1, 11, 11, 10]) == ["1 firing!", "3 resolved!"]


def test_alert_is_pending_until_for_has_elapsed() -> None:
    assert played(rules_of(lag_rule(for_="3s")), [11] * 5) == ["0 pending", "3 firing!"]


def test_pending_alert_becomes_inactive_without_notification() -> None:
    assert played(rules_of(lag_rule(for_="3s")), [11, 11, 1, 11, 11, 11, 11]) == [
        "0 pending", "2 inactive", "3 pending", "6 firing!",
    ]  # fmt: skip


def test_hysteresis_keeps_alert_firing_until_clear() -> None:
    assert played(rules_of(lag_rule(clear=5)), [11, 9, 11, 6, 5, 9]) == ["0 firing!", "4 resolved!"]


def test_value_between_clear_and_threshold_does_not_fire() -> None:
    assert played(rules_of(lag_rule(clear=5)), [9, 9, 9]) == []


def test_keep_firing_for_delays_resolution() -> None:
    rules = rules_of(lag_rule(keep_firing_for="2s"))
    assert played(rules, [11, 1, 11, 1, 1, 1]) == ["0 firing!", "5 resolved!"]


@pytest.mark.parametrize("missing", [NAN, None], ids=["NaN", "no sample"])
def test_missing_data_does_not_resolve_a_firing_alert(missing: float | None) -> None:
    """A firing alert outlives silence, and is resolved by a value."""
    rules = rules_of(lag_rule(), **{"stale-after": "2s"})
    assert played(rules, [11, *[missing] * 100, 1]) == ["0 firing!", "101 resolved!"]


@pytest.mark.parametrize("missing", [NAN, None], ids=["NaN", "no sample"])
def test_missing_data_keeps_a_pending_alert_pending(missing: float | None) -> None:
    rules = rules_of(lag_rule(for_="3s"), **{"stale-after": "1s"})
    assert played(rules, [11, *[missing] * 8, 11]) == ["0 pending", "9 firing!"]
    assert played(rules, [11, *[missing] * 8, 1]) == ["0 pending", "9 inactive"]


def test_alert_shows_whether_its_value_is_current() -> None:
    engine = Engine(rules_of(lag_rule()))
    engine.step([sample(11, 0, mirror="m")], 0)
    assert [alert.observed for alert in engine.active] == [True]
    engine.step([sample(NAN, 1, mirror="m")], SECOND)
    assert [(alert.observed, alert.value) for alert in engine.active] == [(False, 11)]


def test_vanished_label_set_resolves_its_alert_with_reason() -> None:
    """Another one is still heard: the source lives, and says nothing of this one any more."""
    rules = rules_of(lag_rule(), **{"stale-after": "1s", "forget-after": "5s"})
    steps = [[sample(11, at, mirror="other")] + [sample(11, at, mirror="m")] * (at < 2) for at in range(12)]
    found = stepped(rules, steps)
    assert changes(found) == ["0 firing!", "0 firing!", "7 resolved!"]
    assert "no sample for 5 s" in found[-1].alert.reason
    assert found[-1].alert.labels == {"mirror": "m"}


def test_fully_silent_signal_does_not_resolve_alerts() -> None:
    """Its source is down: nobody knows, and nothing ends."""
    rules = rules_of(lag_rule(), **{"stale-after": "1s", "forget-after": "5s"})
    assert played(rules, [11, *[None] * 100, 1]) == ["0 firing!", "101 resolved!"]


def test_duplicate_timestamps_are_merged_in_any_order() -> None:
    twice = [sample(11, 0, mirror="m"), sample(1, 0, mirror="m")]
    for samples in (twice, twice[::-1]):
        assert changes(stepped(rules_of(lag_rule()), [samples])) == ["0 firing!"]


def test_each_label_set_is_a_separate_alert() -> None:
    steps = [[sample(11, 0, mirror="a"), sample(1, 0, mirror="b")], [sample(11, 1, mirror="b")]]
    assert [each.alert.labels for each in stepped(rules_of(lag_rule()), steps)] == [
        {"mirror": "a"}, {"mirror": "b"},
    ]  # fmt: skip


def test_source_labels_distinguish_alerts() -> None:
    steps = [[sample(11, 0, mirror="a", cluster="x"), sample(11, 0, mirror="a", cluster="y")]]
    assert len(stepped(rules_of(lag_rule()), steps)) == 2


@pytest.mark.parametrize(("combine", "value"), [("sum", 14), ("max", 8), ("min", 6)])
def test_combine_aggregates_label_sets(combine: str, value: float) -> None:
    rules = rules_of(lag_rule(combine=combine, above=5))
    (found,) = stepped(rules, [[sample(8, 0, mirror="a"), sample(6, 0, mirror="b")]])
    assert (found.alert.value, found.alert.labels) == (value, {})


def test_combine_by_groups_label_sets() -> None:
    rule = {
        "name": "lag",
        "signal": "kaput_consumer_lag_records",
        "combine": "sum",
        "by": ["group"],
        "above": 10,
    }
    samples = [
        sample(6, 0, "kaput_consumer_lag_records", group=group, topic="t", partition=partition)
        for group, partition in (("a", "0"), ("a", "1"), ("b", "0"))
    ]
    (found,) = stepped(rules_of(rule), [samples])
    assert (found.alert.labels, found.alert.value) == ({"group": "a"}, 12)


def test_sum_with_an_unknown_part_is_unknown() -> None:
    """Else the part that is missing would make it low."""
    rules = rules_of(lag_rule(combine="sum", above=None, below=10))
    assert stepped(rules, [[sample(9, 0, mirror="a"), sample(NAN, 0, mirror="b")]]) == []


def test_max_fires_on_a_single_known_part() -> None:
    rules = rules_of(lag_rule(combine="max"))
    partly = [[sample(11, 0, mirror="a"), sample(NAN, 0, mirror="b")], [sample(1, 1, mirror="a")]]
    assert changes(stepped(rules, partly)) == ["0 firing!"]


def test_where_filters_label_sets() -> None:
    rules = rules_of(lag_rule(where={"mirror": "a"}))
    assert stepped(rules, [[sample(11, 0, mirror="b")]]) == []
    assert len(stepped(rules, [[sample(11, 0, mirror="a")]])) == 1


COUNTER = "kaput_messages_acked_total"


def counted(*totals: float, **keys: object) -> list[str]:
    """What a rule on a counter makes of one total each second."""
    rule = {"name": "rate", "signal": COUNTER} | {key.replace("_", "-"): value for key, value in keys.items()}
    steps = [[sample(value, at, COUNTER, topic="t", partition="0")] for at, value in enumerate(totals)]
    return changes(stepped(rules_of(rule), steps))


def test_rate_is_per_second_over_the_window() -> None:
    assert counted(0, 1000, 2000, 2000, 2000, rate="2s", below=800) == ["3 firing!"]


def test_counter_reset_does_not_lower_the_rate() -> None:
    assert counted(5000, 6000, 1000, 2000, rate="2s", below=800) == []


def test_single_sample_has_no_rate() -> None:
    assert counted(0, rate="2s", below=800) == []


def test_rate_is_available_before_window_is_full() -> None:
    assert counted(0, 500, 1000, rate="10s", below=800) == ["1 firing!"]


def test_rate_does_not_span_a_data_gap() -> None:
    """What was counted before it says nothing of the window."""
    rule = {"name": "rate", "signal": COUNTER, "rate": "2s", "below": 800}
    rules = rules_of(rule, **{"stale-after": "2s"})
    totals = {0: 0, 20: 0, 21: 1000}
    steps = [
        [sample(totals[at], at, COUNTER, topic="t", partition="0")] if at in totals else []
        for at in range(22)
    ]
    assert stepped(rules, steps) == []


def test_increase_between_windows_is_not_missed() -> None:
    assert counted(0, 0, 1, 1, 1, 1, increase="2s", above=0) == ["2 firing!", "4 resolved!"]


def test_gauge_rate_can_be_negative() -> None:
    rules = rules_of(lag_rule(rate="1s", above=0.5, clear=0))
    assert played(rules, [5, 6, 7, 6, 5]) == ["1 firing!", "3 resolved!"]


def test_absent_fires_when_signal_is_missing() -> None:
    rules = rules_of({"name": "blind", "signal": UP, "absent": "3s"})
    steps = [[sample(1, at, UP, broker="1")] if at == 6 else [] for at in range(8)]
    assert changes(stepped(rules, steps)) == ["3 firing!", "6 resolved!"]
    nan = [[sample(NAN, at, UP, broker="1")] for at in range(4)]
    assert changes(stepped(rules, nan)) == ["3 firing!"], "NaN is nothing that was observed"


def test_future_samples_count_when_due() -> None:
    early = [[sample(11, 2, mirror="m"), sample(1, 0, mirror="m")], [], []]
    assert changes(stepped(rules_of(lag_rule()), early)) == ["2 firing!"]


def test_late_samples_are_reordered() -> None:
    late = [[sample(1, 0, mirror="m")], [], [sample(2, 2, mirror="m")], [sample(11, 1, mirror="m")]]
    assert stepped(rules_of(lag_rule()), late) == []


def test_step_with_earlier_time_is_rejected() -> None:
    engine = Engine(rules_of(lag_rule()))
    engine.step([], 5)
    with pytest.raises(ValueError, match="after 5"):
        engine.step([], 4)


DOWN = {"name": "down", "signal": UP, "at-most": 0}
BEHIND = {
    "name": "behind", "signal": "kaput_out_of_sync_replicas", "above": 0,
    "unless": [{"rule": "down", "equal": ["broker"]}],
}  # fmt: skip


def broker(at: int, up: int, behind: int, number: str = "1") -> list[object]:
    """Whether a broker is up, and its replicas that are out of sync."""
    return [
        sample(up, at, UP, broker=number), sample(behind, at, "kaput_out_of_sync_replicas", broker=number),
    ]  # fmt: skip


def of(found: list, name: str) -> list[str]:
    """The changes of one rule."""
    return changes(each for each in found if each.alert.rule.name == name)


def test_inhibited_alert_is_not_announced() -> None:
    found = stepped(rules_of(BEHIND, DOWN), [broker(0, 1, 0), broker(1, 0, 50), broker(2, 1, 0)])
    assert of(found, "behind") == ["1 firing", "2 resolved"]
    assert of(found, "down") == ["1 firing!", "2 resolved!"]
    assert found[0].alert.inhibited_by == ("down",)


def test_inhibition_requires_equal_labels() -> None:
    steps = [broker(0, 0, 5) + broker(0, 1, 5, "2")]
    found = {
        each.alert.labels["broker"]: each.announce
        for each in stepped(rules_of(BEHIND, DOWN), steps)
        if each.alert.rule.name == "behind"
    }
    assert found == {"1": False, "2": True}


def test_for_restarts_when_inhibition_ends() -> None:
    rules = rules_of(BEHIND | {"for": "3s"}, DOWN)
    down = [broker(at, 0, 50) for at in range(5)]
    assert of(stepped(rules, [*down, *[broker(at, 1, 50) for at in range(5, 10)]]), "behind") == [
        "0 pending", "3 firing", "7 released!",
    ]  # fmt: skip
    caught_up = [broker(at, 1, 50 * (at == 5)) for at in range(5, 10)]
    assert of(stepped(rules, [*down, *caught_up]), "behind") == ["0 pending", "3 firing", "6 resolved"]


def test_announced_then_inhibited_alert_announces_resolution() -> None:
    steps = [broker(0, 1, 5), broker(1, 0, 5), broker(2, 1, 0)]
    assert of(stepped(rules_of(BEHIND, DOWN), steps), "behind") == ["0 firing!", "1 inhibited", "2 resolved!"]


def test_pending_alert_does_not_inhibit() -> None:
    rules = rules_of(BEHIND, DOWN | {"for": "10s"})
    assert of(stepped(rules, [broker(0, 0, 5)]), "behind") == ["0 firing!"]


def test_summary_contains_labels_and_value() -> None:
    rules = rules_of(lag_rule(summary="{mirror} is {value:duration} behind"))
    (found,) = stepped(rules, [[sample(7200, 0, LAG, mirror="a->b")]])
    assert found.alert.summary == "a->b is 2 h behind"
    assert found.alert.key == stepped(rules, [[sample(99, 0, LAG, mirror="a->b")]])[0].alert.key
