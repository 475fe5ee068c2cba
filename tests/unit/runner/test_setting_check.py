"""Settings that nothing would read are refused before anything starts."""

from __future__ import annotations

import pytest

from kaput.cluster.distribution import resolve
from kaput.errors import UsageError
from kaput.java import find_java
from kaput.runner.setting_check import check_settings
from kaput.scenario.builtin import builtin_names
from kaput.scenario.loader import load_builtin


def checked(*overrides: str, own: bool = True) -> None:
    """Checks a built-in scenario with these changes, as before a run."""
    java = find_java()
    scenario = load_builtin("consumer-failover", overrides)
    check_settings(scenario, java, (lambda version: resolve(version, java)) if own else None)


def mistakes(*overrides: str, own: bool = True) -> list[str]:
    """The lines of what it refuses; none if it accepts all."""
    try:
        checked(*overrides, own=own)
    except UsageError as error:
        return str(error).splitlines()
    return []


_PRODUCER, _GROUP = "workload.producers.0", "workload.groups.0"


_LIBRDKAFKA = "setting of librdkafka; did you mean"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("cluster.config.min.insync.replica=2", "config: min.insync.replica is no broker setting of Kafka"),
        ("cluster.config.min.insync.replica=2", "did you mean min.insync.replicas?"),
        ("cluster.config.unclean.leader.election.enabled=false", "mean unclean.leader.election.enable?"),
        ("topics.0.config.retention=5", "topics.0.config: retention is no topic setting of Kafka"),
        (f"{_PRODUCER}.config.linger.millis=5", f"no producer {_LIBRDKAFKA} linger.ms?"),
        (f"{_GROUP}.config.session.timeout=5", f"no consumer {_LIBRDKAFKA} session.timeout.ms?"),
        (f"{_PRODUCER}.config.linger.ms=soon", f"{_PRODUCER}.config: linger.ms=soon: Invalid value"),
    ],
)
def test_unknown_setting_is_named_with_the_nearest_word(override: str, message: str) -> None:
    """Of brokers, topics and librdkafka's clients; a value that librdkafka refuses is one too."""
    with pytest.raises(UsageError) as raised:
        checked(override)
    assert message in str(raised.value)


def test_setting_that_only_fits_with_others_is_accepted() -> None:
    """A session may be longer than max.poll.interval.ms is by default, if that is longer as well."""
    longer = (f"{_GROUP}.config.session.timeout.ms=1800000", f"{_GROUP}.config.max.poll.interval.ms=1800000")
    assert mistakes(*longer) == []


def test_java_clients_have_java_names() -> None:
    """The names of the client's own version."""
    java = (f"{_PRODUCER}.client=java", f"{_PRODUCER}.config.delivery.timeout=5")
    with pytest.raises(UsageError, match=r"no producer setting of Kafka .* delivery\.timeout\.ms\?"):
        checked(*java)
    assert mistakes(f"{_PRODUCER}.client=java", f"{_PRODUCER}.config.delivery.timeout.ms=60000") == []


def test_all_mistakes_are_reported_at_once() -> None:
    wrong = ("cluster.config.nonsense=1", "topics.0.config.nonsense=1", f"{_PRODUCER}.config.nonsense=1")
    assert [line.split(":")[0] for line in mistakes(*wrong)] == [
        "cluster.config",
        "topics.0.config",
        f"{_PRODUCER}.config",
    ]


def test_settings_of_listeners_and_plugins_are_accepted() -> None:
    """Kafka passes them on without knowing them."""
    listener = "cluster.config.listener.name.internal.plain.sasl.jaas.config=x"
    assert mistakes(listener, "topics.0.config.retention.ms=5000") == []


def test_existing_cluster_is_only_checked_for_librdkafka() -> None:
    """Its brokers answer for themselves."""
    assert mistakes("topics.0.config.nonsense=1", own=False) == []
    with pytest.raises(UsageError, match="nonsense is no producer setting"):
        checked(f"{_PRODUCER}.config.nonsense=1", own=False)


def test_built_in_scenarios_only_have_known_settings() -> None:
    """All that run on the default version."""
    java = find_java()
    refused = {}
    for name in builtin_names():
        try:
            check_settings(load_builtin(name), java, lambda version: resolve(version, java))
        except UsageError as error:
            refused[name] = str(error)
    assert refused == {}


def test_settings_that_only_a_running_broker_takes_are_accepted_in_a_step() -> None:
    """Not in server.properties, and not for a topic."""
    for target, config, refused in (
        ("broker 1", "{leader.replication.throttled.rate: 1000}", 0),
        ("broker 1", "{leader.replication.throttled.rates: 1000}", 1),
        ("topic orders", "{leader.replication.throttled.rate: 1000}", 1),
        ("broker 1", "{min.insync.replicas: 2}", 0),
    ):
        step = f"{{at: 1s, fault: change-config, target: {target}, config: {config}}}"
        assert len(mistakes(f"faults=[{step}]")) == refused, target
    assert len(mistakes("cluster.config.leader.replication.throttled.rate=1000")) == 1


@pytest.mark.parametrize("version", ["4.4.0", "3.9.2"])
def test_setting_that_only_a_restart_changes_is_refused_in_a_step(version: str) -> None:
    """A broker refuses it while it runs; a listener's own settings are not among these."""
    for config, refused in (("{replica.lag.time.max.ms: 900}", True), ("{log.retention.ms: 900}", False)):
        step = f"{{at: 1s, fault: change-config, target: broker 1, config: {config}}}"
        sentence = "faults.0.config: replica.lag.time.max.ms can't change while a broker runs; write it under"
        found = mistakes(f"cluster.kafka={version}", f"faults=[{step}]")
        assert [line.startswith(sentence) for line in found] == [True] * refused
