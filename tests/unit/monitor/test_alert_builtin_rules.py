"""The rules that kaput brings along: complete, and silent through an hour of rolling restarts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from fakes.alerting import sample, stepped
from kaput.core import SECOND
from kaput.monitor.alerts.engine import Engine
from kaput.monitor.alerts.rules import AlertRule, builtin
from kaput.monitor.signals import Sample

RULES = builtin()
CONDITIONS = {
    "low-send-rate", "nothing-acknowledged", "offline-partitions", "under-min-isr", "replicas-out-of-sync",
    "no-active-controller", "several-active-controllers", "quorum-follower-lag", "consumer-lag-growing",
    "group-rebalancing", "unclean-election", "no-spare-replica", "log-dir-offline", "disk-nearly-full",
    "certificate-ends", "mirror-lag",
}  # fmt: skip


def test_every_required_condition_has_a_builtin_rule() -> None:
    assert set(RULES.by_name) >= CONDITIONS


@pytest.mark.parametrize("rule", list(RULES), ids=lambda rule: rule.name)
def test_every_rule_justifies_its_severity(rule: AlertRule) -> None:
    assert rule.why.startswith("Wakes: " if rule.severity == "page" else "Does not wake: ")
    assert rule.why.endswith(".") and not rule.summary.endswith(".")


def observed(at: float) -> Sample:
    """What says that the cluster can be observed."""
    return sample(1, at, "kaput_active_controllers")


def announced(steps: Iterable[list[Sample]]) -> list[str]:
    """The rules whose alerts disturb somebody."""
    return [each.alert.rule.name for each in stepped(RULES, steps) if each.announce]


@pytest.mark.parametrize(("rate", "names"), [(1000, []), (810, []), (780, ["low-send-rate"])])
def test_low_send_rate_alert_fires_below_800_per_second(rate: int, names: list[str]) -> None:
    acked, places = "kaput_messages_acked_total", [{"topic": "t", "partition": str(n)} for n in range(3)]
    assert names == announced(
        [observed(at), *(sample(rate * at / 3, at, acked, **place) for place in places)] for at in range(120)
    )


def healthy(at: float, down: int | None) -> Iterator[Sample]:
    """Samples of a cluster of three, one of whose brokers may be restarting."""
    for broker in (1, 2, 3):
        labels = {"broker": str(broker)}
        yield sample(broker != down, at, "kaput_broker_up", **labels)
        yield sample(40 * (broker == down), at, "kaput_out_of_sync_replicas", **labels)
        yield sample(
            20 * (down is not None and broker != down), at, "kaput_under_replicated_partitions", **labels
        )
    for name, value in (
        ("kaput_active_controllers", 1), ("kaput_offline_partitions", 0),
        ("kaput_under_min_isr_partitions", 0), ("kaput_unclean_elections_total", 0),
    ):  # fmt: skip
        yield sample(value, at, name)
    for partition in range(6):
        labels = {"topic": "canary", "partition": str(partition)}
        yield sample(200 * at, at, "kaput_messages_acked_total", **labels)
        yield sample(
            2 if down is not None and at % 60 < 3 else 0, at, "kaput_unacknowledged_seconds", **labels
        )


def test_rolling_restarts_fire_no_alert() -> None:
    """Not even if the next broker stops the moment the one before is back: nobody sees the ISR whole."""
    steps = [list(healthy(at, int(at // 60) % 3 + 1)) for at in range(0, 3600)]
    assert {each.change for each in stepped(RULES, steps)} <= {"pending", "inactive"}


def test_broker_down_fires_a_single_ticket() -> None:
    """Its replicas are out of sync for ever, and nobody is asked to look at that as well."""
    steps = [list(healthy(at, 2)) for at in range(0, 1200)]
    (found,) = [each.alert for each in stepped(RULES, steps) if each.announce]
    assert (found.rule.name, found.labels, found.rule.severity) == ("broker-down", {"broker": "2"}, "ticket")


def test_broker_stuck_out_of_sync_fires_a_ticket() -> None:
    engine, found = Engine(RULES), []
    for at in range(1000):
        samples = [each for each in healthy(at, None) if each.name != "kaput_out_of_sync_replicas"]
        stuck = sample(3, at, "kaput_out_of_sync_replicas", broker="3")
        found += engine.step([*samples, stuck], at * SECOND)
    assert [each.alert.rule.name for each in found if each.announce] == ["replicas-out-of-sync"]


def test_full_outage_fires_a_single_page() -> None:
    """Not one for the rate and one for each topic's silence, too."""
    place = {"topic": "t", "partition": "0"}
    assert announced(
        [
            observed(at),
            sample(1000 * min(at, 60), at, "kaput_messages_acked_total", **place),
            sample(max(0, at - 60), at, "kaput_unacknowledged_seconds", **place),
        ]
        for at in range(240)
    ) == ["nothing-acknowledged"]


@pytest.mark.parametrize(("value", "names"), [
    (0.7, []), (0.85, ["disk-filling"]), (0.95, ["disk-nearly-full"]),
])  # fmt: skip
def test_full_disk_pages_and_filling_disk_opens_a_ticket(value: float, names: list[str]) -> None:
    used = "kaput_log_dir_used_ratio"
    assert announced([observed(at), sample(value, at, used, broker="1")] for at in range(700)) == names
