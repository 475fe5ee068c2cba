"""Steps that change the cluster as a whole and the rest of a scenario: each disagreement, at its path."""

from __future__ import annotations

from typing import Any

import pytest

from kaput.core import NEWEST_KAFKA
from kaput.scenario.checks.scenario import check
from kaput.scenario.model import Scenario
from kaput.scenario.source import dotted


def found(*steps: dict[str, Any], **cluster: Any) -> dict[str, str]:
    """Mistakes of the steps, by their path below `faults`, on one broker."""
    raw = {
        "version": 1,
        "title": "x",
        "cluster": {"brokers": 1, **cluster},
        "topics": [{"name": "orders", "replication-factor": 1}],
        "workload": {"producers": [{"topic": "orders", "messages": 10}]},
        "faults": [{"at": "1s", **step} for step in steps],
    }
    return {dotted(m.path).removeprefix("faults."): m.text for m in check(Scenario.model_validate(raw))}


UPGRADE = {"fault": "rolling-upgrade", "target": "cluster", "kafka": "9.0.0"}
GROW = {"fault": "grow", "target": "cluster", "brokers": 2}


def test_brokers_added_by_grow_can_be_used_and_targeted() -> None:
    reassign = {"fault": "reassign", "target": "cluster", "replication-factor": 3}
    kill = {"fault": "kill", "target": "broker 3", "for": "3s"}
    assert found(GROW, reassign, kill) == {}
    assert "there are 1" in found(reassign)["0.replication-factor"]
    assert "no such broker: 3" in found(kill)["0.target"]


def test_brokers_that_steps_add_take_no_ids_of_controllers() -> None:
    """100 in all, also in several steps; the step that adds one too many is the mistake."""
    grown = {**GROW, "brokers": 50}
    assert found(grown, {**grown, "brokers": 49}) == {}
    text = "101 brokers are too many, since ids from 101 on are those of controllers; write {}"
    assert found(grown, grown, GROW) == {"1.brokers": text.format("49 or fewer")}
    assert found({**GROW, "brokers": 1}, brokers=100) == {
        "0.brokers": text.format("").removesuffix("write ") + "drop this step"
    }


@pytest.mark.parametrize(
    ("step", "path", "text"),
    [
        ({**GROW, "target": "broker 1"}, "0.target", "grow changes the cluster as a whole; write target"),
        ({**GROW, "for": "3s"}, "0.for", "the change made by grow is permanent; leave this out"),
        ({**GROW, "replication-factor": 2}, "0.replication-factor", "grow takes no replication-factor"),
        ({**UPGRADE, "kafka": "4.3"}, "0.kafka", f"'4.3' is not a version such as {NEWEST_KAFKA}"),
        ({**UPGRADE, "target": "all"}, "0.target", "rolling-upgrade changes the cluster as a whole"),
        ({"fault": "kill", "target": "cluster"}, "0.target", "kill does not hit the cluster as a whole"),
    ],
)  # fmt: skip
def test_invalid_cluster_step_is_rejected(step: dict[str, Any], path: str, text: str) -> None:
    """At its key, with what would be right."""
    mistakes = found(step)
    assert list(mistakes) == [path] and text in mistakes[path]


def test_cluster_features_require_kraft() -> None:
    """ZooKeeper mode has none: a level of 0 is what there is, any other one a mistake."""
    off, on = ({"eligible.leader.replicas.version": level} for level in (0, 1))
    zookeeper = {"mode": "zookeeper", "kafka": "3.9.2"}
    assert found(features=on) == found(features=off) == found(features=off, **zookeeper) == {}
    assert "ZooKeeper" in found(features=on, **zookeeper)["cluster.features"]


def test_rolling_upgrade_requires_a_newer_version() -> None:
    """Than what the cluster has by then; without a word, to the newest that kaput comes with."""
    to = {version: {**UPGRADE, "kafka": version} for version in ("3.9.2", "3.10.0", "4.3.1")}
    assert found(to["3.10.0"], to["4.3.1"], kafka="3.9.2") == {}
    assert found({"fault": "rolling-upgrade", "target": "cluster"}, kafka="3.9.2") == {}
    assert "has Kafka 3.9.2 by then" in found(to["3.9.2"], kafka="3.9.2")["0.kafka"]
    assert "has Kafka 4.3.1 by then" in found(to["4.3.1"], to["3.10.0"], kafka="3.9.2")["1.kafka"]
    assert "has Kafka 3.10.0 by then" in found(to["3.9.2"], kafka="3.10.0")["0.kafka"]


def test_rolling_upgrade_requires_kraft() -> None:
    """Kafka 4 has no ZooKeeper mode that one could end in."""
    assert "is for KRaft" in found(UPGRADE, mode="zookeeper", kafka="3.9.2")["0.fault"]
