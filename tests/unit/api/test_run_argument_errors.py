"""What kaput.run refuses, it refuses before anything is started or written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kaput
from kaput.api.running import _resolve
from kaput.scenario.builtin import builtin_text


def test_a_scenario_is_a_name_a_file_or_a_dict(tmp_path: Path) -> None:
    """All three are checked alike, with changes whose values are Python's."""
    document: dict[str, Any] = {
        "version": 1,
        "title": "Mine",
        "cluster": {"brokers": 3},
        "topics": [{"name": "orders", "partitions": 1, "replication-factor": 3}],
        "workload": {"producers": [{"topic": "orders", "acks": "all", "messages": 100}]},
    }
    changes = {
        "workload.producers.0.acks": 0,
        "cluster.config.unclean.leader.election.enable": True,
        "expect": {"lost": ">0"},
    }
    name, scenario = _resolve(document, changes)
    assert (name, scenario.title, scenario.workload.producers[0].acks) == ("scenario", "Mine", "0")
    assert scenario.cluster.config == {"unclean.leader.election.enable": True}
    assert scenario.expect is not None and scenario.expect.model_dump()["lost"] == ">0"
    file = tmp_path / "mine.yaml"
    file.write_text(builtin_text("noop"))
    assert _resolve(file, {})[0] == "mine"
    assert _resolve("noop", {})[0] == "noop"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("leader-kill-acks",), "did you mean leader-kill-acks-"),
        (
            ("noop", {"workload.producers.0.ack": 1}),
            "no such key: workload.producers.0.ack; did you mean acks",
        ),
        (("noop", {"workload.producers.0.acks": "some"}), "workload.producers.0.acks="),
        (({"version": 1, "titel": "Mine"},), "titel: no such key; did you mean title"),
    ],
)
def test_invalid_arguments_are_rejected_and_create_nothing(arguments: Any, said: str, tmp_path: Path) -> None:
    """Each with its place, as on the command line."""
    with pytest.raises(kaput.UsageError, match=said):
        kaput.run(*arguments, runs=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_network_faults_need_kaput_inside(tmp_path: Path) -> None:
    """A library cannot start its program over; the message says what to write."""
    with pytest.raises(kaput.LabError, match=r"kaput inside COMMAND"):
        kaput.run("leader-isolated-acks-1", runs=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"command_config": "client.properties"}, "command_config goes with bootstrap_servers"),
        ({"use_existing_topics": True}, "use_existing_topics goes with bootstrap_servers"),
        ({"bootstrap_servers": "host:9092", "kafka_home": "/opt/kafka"}, "kafka_home is for clusters that"),
    ],
)
def test_options_of_the_other_kind_of_cluster_are_refused(options: Any, said: str, tmp_path: Path) -> None:
    """Those of kaput's own clusters with yours, and those of yours with kaput's own."""
    with pytest.raises(kaput.UsageError, match=said):
        kaput.run("noop", runs=tmp_path / "runs", **options)
    assert not (tmp_path / "runs").exists()
