"""The doctor's experiments: each check has one or a reason, and they differ in the remedy alone."""

from __future__ import annotations

import json

import pytest

from kaput.cli.doctor import _columns
from kaput.evidence.findings import Findings
from kaput.operate.doctor.checks import CHECKS
from kaput.operate.doctor.experiments import EXPERIMENTS, LOST, NO_EXPERIMENT, WAIT, fix_helps, pair
from kaput.operate.doctor.snapshot import Broker, ClusterSnapshot, Replicas, TopicState
from kaput.report.comparison import EVERY_FIGURE
from unit.report.handmade_findings import document


def with_topic(factor: int, min_isr: int) -> ClusterSnapshot:
    """A cluster with one topic."""
    replicas = tuple(range(1, factor + 1))
    topic = TopicState("bills", [Replicas(0, 1, replicas, replicas)], {"min.insync.replicas": str(min_isr)})
    return ClusterSnapshot([Broker(number, None, {}) for number in replicas], [topic])


def test_every_check_has_an_experiment_or_a_reason() -> None:
    """None is forgotten, and none has both."""
    every = {check.id for check in CHECKS}
    assert every == {*EXPERIMENTS, *NO_EXPERIMENT} and not {*EXPERIMENTS} & {*NO_EXPERIMENT}


@pytest.mark.parametrize("number", EXPERIMENTS)
def test_experiment_differs_only_in_the_fix(number: str) -> None:
    """Both scenarios are sound, and break the same at the same time; they differ."""
    made = pair(number, None, None)
    assert made.without_fix.faults == made.with_fix.faults and made.without_fix.faults
    assert made.without_fix != made.with_fix
    assert made.without_fix.expect == made.with_fix.expect


def test_experiment_uses_the_settings_that_were_found() -> None:
    """As many replicas, as many of them in sync."""
    made = pair("KP002", with_topic(5, 5), "topic bills")
    (risky,), (mended,) = made.without_fix.topics, made.with_fix.topics
    assert (risky.replication_factor, risky.config["min.insync.replicas"]) == (5, 5)
    assert (mended.replication_factor, mended.config["min.insync.replicas"]) == (5, 4)
    made = pair("KP002", with_topic(2, 2), "topic bills")
    (risky,), (mended,) = made.without_fix.topics, made.with_fix.topics
    assert (risky.replication_factor, risky.config["min.insync.replicas"]) == (2, 2)
    assert (mended.replication_factor, mended.config["min.insync.replicas"]) == (3, 2)
    made = pair("KP003", with_topic(2, 1), "topic bills")
    (risky,), (mended,) = made.without_fix.topics, made.with_fix.topics
    assert (risky.replication_factor, risky.config["min.insync.replicas"]) == (2, 1)
    assert (mended.replication_factor, mended.config["min.insync.replicas"]) == (3, 2)


def found(lost: int, ack_ms: float | None) -> Findings:
    """The findings of a run, as far as they are compared."""
    data = document()
    data["latency_ms"]["ack"]["max"] = ack_ms
    for each in data["anomalies"]:
        if each["name"] == "lost":
            each["count"] = lost
    return Findings.model_validate_json(json.dumps(data))


def test_table_of_experiments_shows_the_figures_that_are_compared() -> None:
    """The same figure, under the name of its column."""
    run = found(7, 5106.0)
    for each in EXPERIMENTS.values():
        assert EVERY_FIGURE[each.figure.column].of(run) == each.figure.of(run)
    shown = _columns([pair("KP001", None, None), pair("KP018", None, None)])
    assert shown[-2:] == ("ack max ms", "duplicate")
    assert set(shown) - {"verdict"} <= set(EVERY_FIGURE)


def test_fix_helps_if_it_halves_the_bad_outcome() -> None:
    """Nothing bad, no difference, and nothing measured show nothing."""
    assert fix_helps(LOST, found(100, 1), found(0, 1)) and fix_helps(WAIT, found(0, 9000.0), found(0, 4000.0))
    assert not fix_helps(LOST, found(0, 1), found(0, 1)) and not fix_helps(LOST, found(100, 1), found(60, 1))
    assert not fix_helps(WAIT, found(0, 100.0), found(0, None)) and not fix_helps(
        WAIT, found(0, None), found(0, 1.0)
    )
