"""A scenario with all its times multiplied."""

from __future__ import annotations

import pytest

from kaput.errors import UsageError
from kaput.scenario.builtin import builtin_names
from kaput.scenario.checks.scenario import check
from kaput.scenario.loader import load_builtin
from kaput.scenario.model import Scenario
from kaput.trials.scaling import scaled


def builtin(name: str, *changes: str) -> Scenario:
    return load_builtin(name, changes)


def test_timeouts_rates_and_durations_are_scaled_together() -> None:
    found = scaled(builtin("leader-kill-acks-1"), 0.2)
    producers = found.workload.producers[0]
    assert found.cluster.config["broker.session.timeout.ms"] == 1800
    assert found.cluster.config["replica.lag.time.max.ms"] == 6000
    assert producers.config["request.timeout.ms"] == 6000
    assert (producers.messages, producers.rate) == (20_000, 5000)
    assert found.dump()["faults"][0]["at"] == {"message": 6000}
    assert found.faults[0].for_ == 2200


def test_configured_timeouts_are_scaled_instead_of_defaults() -> None:
    config = "cluster.config={broker.session.timeout.ms: 20000, unclean.leader.election.enable: false}"
    found = scaled(builtin("leader-kill-acks-1", config), 0.5)
    assert found.cluster.config["broker.session.timeout.ms"] == 10_000
    assert found.cluster.config["unclean.leader.election.enable"] is False


def test_group_min_session_timeout_allows_scaled_sessions() -> None:
    found = scaled(builtin("consumer-failover"), 0.1)
    least = int(str(found.cluster.config["group.min.session.timeout.ms"]))
    sessions = [
        int(str(group.config["session.timeout.ms"]))
        for group in found.workload.groups
        if group.type == "classic"
    ]
    assert sessions
    assert min(sessions) >= least


def test_quorum_fetch_timeout_has_a_lower_bound() -> None:
    found = scaled(builtin("leader-kill-acks-1"), 0.05)
    assert found.cluster.config["controller.quorum.fetch.timeout.ms"] == 1000


def test_zero_processing_time_stays_zero() -> None:
    assert scaled(builtin("transactions-leader-kill"), 0.2).workload.groups[0].processing == 0


def test_factor_one_changes_nothing() -> None:
    scenario = builtin("leader-kill-acks-1")
    assert scaled(scenario, 1) is scenario


@pytest.mark.parametrize("name", builtin_names())
def test_every_builtin_scenario_is_scaled_or_rejected(name: str) -> None:
    scenario = builtin(name)
    if scenario.clusters or scenario.plan:
        with pytest.raises(UsageError, match="cannot be scaled"):
            scaled(scenario, 0.2)
    else:
        assert check(scaled(scenario, 0.2), existing=False) == []


def test_delay_after_an_event_is_scaled() -> None:
    second = scaled(builtin("second-kill-at-election"), 0.5).dump()["faults"][1]
    assert second["at"] == {"event": "election", "of": "orders/0", "after": "2s"}
