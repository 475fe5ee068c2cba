"""The lab in Python: faults in its spelling, in two calls or in a block, and jars ahead of time."""

from __future__ import annotations

from pathlib import Path

import pytest

import kaput
from fakes.world import World
from kaput.cluster.distribution import Distribution
from kaput.errors import UsageError
from kaput.java import Java
from kaput.operate.fault_injection import FaultInjector
from kaput.operate.standing_cluster import StandingCluster


class WholeCluster:
    """A cluster whose brokers are all there. `waits`: how often that was waited for."""

    waits = 0

    def wait_ready(self, timeout_s: float) -> None:
        self.waits += 1


@pytest.fixture
def world() -> World:
    """Three brokers, and a network that packets can be dropped in."""
    return World("isolate")


@pytest.fixture
def made(world: World) -> StandingCluster:
    found = StandingCluster(brokers=3, controllers=1, network="namespaces")
    faults = FaultInjector(world.nodes, world.network, world.admin, lambda: found.spec, seed=1)  # type: ignore[arg-type]
    found._faults, found._cluster = faults, WholeCluster()  # type: ignore[assignment]
    return found


def test_a_fault_is_injected_and_healed_in_two_calls(made: StandingCluster) -> None:
    """By itself or by its id; its options are in Python's spelling, and what is not active is a mistake."""
    cut = made.inject("cut", "broker 1", from_="controllers", how="drop")
    assert (cut.fault, cut.brokers, made.active_faults) == ("cut", [1], [cut])
    assert made.heal(cut).id == cut.id and not made.active_faults
    again = made.inject("isolate", "broker 2")
    assert made.heal(again.id).id == again.id
    with pytest.raises(UsageError, match=f"no fault {cut.id} is active"):
        made.heal(cut)


def test_unknown_settings_are_named_before_anything_starts(tmp_path: Path) -> None:
    """Of brokers and of a scenario's topics, all at once; those of a plugin are let through on request."""
    path = tmp_path / "mine.yaml"
    text = "version: 1\ntitle: T\ntopics: [{name: a, config: {retention: 5}}]\n"
    path.write_text(f"{text}workload: {{producers: [{{topic: a, messages: 10000}}]}}\n")
    typo = {"min.insync.replica": 2}
    with pytest.raises(UsageError) as raised:
        StandingCluster(path, config=typo).fetch()
    broker, topic = str(raised.value).splitlines()
    assert broker.startswith("config.min.insync.replica: no broker setting of Kafka")
    assert "did you mean min.insync.replicas?" in broker
    assert topic.startswith(f"{path}:3: topics.0.config.retention: no topic setting of Kafka")
    StandingCluster(path, config=typo, allow_unknown=True).fetch()


def test_a_block_waits_for_the_cluster_and_heal_does_not(made: StandingCluster) -> None:
    """Once, after the last fault of several has been healed."""
    made.heal(made.inject("isolate", "broker 1"))
    assert made._cluster.waits == 0  # type: ignore[attr-defined]
    with made.fault("isolate", "broker 1"), made.fault("isolate", "broker 2"):
        assert [each.brokers for each in made.active_faults] == [[1], [2]]
    assert made._cluster.waits == 1  # type: ignore[attr-defined]


def test_jars_may_be_fetched_ahead_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """From another source, whose version the lab then has."""
    java = Java(Path("java"), 17, "17.0.1", "")
    monkeypatch.setattr("kaput.operate.standing_cluster.find_java", lambda: java)
    wanted = []

    def home(version: str, found: Java) -> Distribution:
        wanted.append((version, found))
        return Distribution("4.2.0", (), "home")

    made = StandingCluster(kafka="4.3.1")
    made.fetch(home)
    assert wanted == [("4.3.1", java)] and made.spec.kafka == "4.2.0"


def test_lab_takes_a_scenarios_cluster_with_overrides() -> None:
    """Keys win over the scenario's; `kaput.lab` is the same; mistakes are named before anything starts."""
    assert kaput.lab is kaput.Lab
    made = kaput.Lab("single-partition-share", brokers=5, disk_mb=500)
    assert made.brokers == [1, 2, 3, 4, 5] and made.spec.disk_mb == 500
    assert [topic.name for topic in made._topics] == ["jobs"]
    with pytest.raises(UsageError, match="broker: no such key; did you mean brokers"):
        kaput.Lab(broker=1)


def test_unknown_fault_option_error_suggests_a_fault_option(made: StandingCluster) -> None:
    """Not with the keys of a whole scenario."""
    with pytest.raises(UsageError, match="directon: cut takes no directon; did you mean direction"):
        made.inject("cut", "broker 1", directon="in")


@pytest.mark.parametrize(
    ("target", "config", "text"),
    [
        ("broker 1", {"message.max.byte": 1}, "config.message.max.byte: .* mean message.max.bytes?"),
        (
            "broker 1",
            {"message.max.bytes": "big"},
            "config.message.max.bytes: .* refuses 'big': Not a number",
        ),
        ("broker 1", {"broker.rack": "b"}, "config.broker.rack: this can't change while a broker runs"),
        ("topic orders", {"log.retention.ms": 1}, "config.log.retention.ms: .* mean retention.ms?"),
    ],
)
def test_change_to_a_wrong_setting_is_refused_before_it_is_asked_for(
    target: str, config: dict[str, object], text: str
) -> None:
    """As the settings of a scenario's steps are."""
    standing = StandingCluster(brokers=3)
    standing.fetch()
    with pytest.raises(UsageError, match=text):
        standing.inject("change-config", target, config=config)
