"""What client processes are started with, from the scenario."""

from __future__ import annotations

import uuid
from pathlib import Path
from types import SimpleNamespace

from kaput.cluster.access import OPEN
from kaput.evidence.folder import RunFolder
from kaput.scenario.model import Scenario
from kaput.workload.client_spec import CommandProducerSpec, MemberSpec
from kaput.workload.supervision.launches import LaunchPlan


def test_java_producer_gets_its_settings_without_its_user(tmp_path: Path) -> None:
    """It signs in with its credentials; Java's client does not know sasl.username."""
    config = {"linger.ms": 5, "sasl.username": "nobody"}
    raw = {
        "version": 1, "title": "x", "topics": [{"name": "orders"}], "cluster": {"security": "scram-tls"},
        "workload": {"producers": [{"topic": "orders", "messages": 1, "client": "java", "config": config}]},
    }  # fmt: skip
    scenario = Scenario.model_validate(raw)
    java = SimpleNamespace(producer=lambda _version: ["java"])
    plan = LaunchPlan(
        scenario, RunFolder(tmp_path), uuid.UUID(int=3), "localhost:1", [], tmp_path / "counters",
        java, lambda _cluster, _user: OPEN,
    )  # type: ignore[arg-type]  # fmt: skip
    spec = plan.producer(0, scenario.producer_specs()[0]).spec
    assert isinstance(spec, CommandProducerSpec)
    assert spec.client_config == {"client.id": "kaput-producer-0", "linger.ms": 5}


def test_each_member_is_started_with_its_own_settings_and_version(tmp_path: Path) -> None:
    """The next process in its place, too; other members have those of the group."""
    group = {
        "id": "billing", "topics": ["orders"], "members": 2, "config": {"fetch.min.bytes": 1},
        "member-config": {2: {"fetch.min.bytes": 7}}, "member-versions": {2: "2.3.0"},
    }  # fmt: skip
    raw = {
        "version": 1, "title": "x", "topics": [{"name": "orders"}],
        "workload": {"producers": [{"topic": "orders", "messages": 1}], "groups": [group]},
    }  # fmt: skip
    scenario = Scenario.model_validate(raw)
    plan = LaunchPlan(
        scenario, RunFolder(tmp_path), uuid.UUID(int=3), "localhost:1", [], tmp_path / "counters",
        None, lambda _cluster, _user: OPEN,
    )  # type: ignore[arg-type]  # fmt: skip
    (billing,) = scenario.workload.groups
    found = []
    for number, name in ((1, "member-1"), (2, "member-2"), (2, "member-2.2")):
        launch = plan.member(billing, number, name)
        assert isinstance(launch.spec, MemberSpec)
        found.append((launch.spec.config["fetch.min.bytes"], launch.version))
    assert found == [(1, None), (7, "2.3.0"), (7, "2.3.0")]
