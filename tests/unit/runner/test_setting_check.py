"""Settings that nothing would read are refused before anything starts."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from kaput.cluster.distribution import resolve
from kaput.cluster.setting_names import _ONLY_3, setting_names
from kaput.errors import UsageError
from kaput.java import find_java
from kaput.runner.setting_check import check_settings
from kaput.runner.setting_check import refused as refused_by_librdkafka
from kaput.scenario.builtin import builtin_names
from kaput.scenario.clients import LIBRDKAFKA_ONLY
from kaput.scenario.loader import load_builtin, load_file


def checked(*overrides: str, own: bool = True, allow_unknown: bool = False) -> None:
    """Checks a built-in scenario with these changes, as before a run."""
    java = find_java()
    scenario = load_builtin("consumer-failover", overrides)
    jars = (lambda version: resolve(version, java)) if own else None
    check_settings([scenario], java, jars, allow_unknown=allow_unknown)


def mistakes(*overrides: str, own: bool = True, allow_unknown: bool = False) -> list[str]:
    """The lines of what it refuses; none if it accepts all."""
    try:
        checked(*overrides, own=own, allow_unknown=allow_unknown)
    except UsageError as error:
        return str(error).splitlines()
    return []


_PRODUCER, _GROUP = "workload.producers.0", "workload.groups.0"


_LIBRDKAFKA = "setting of librdkafka; did you mean"
_REFUSED = [
    ("cluster.config.log.retention.ms=7d", "Kafka 4.4.0 refuses '7d': Not a number of type LONG"),
    ("cluster.config.num.io.threads=0", "refuses '0': Value must be at least 1"),
    (
        "topics.0.config.cleanup.policy=compactt",
        "refuses 'compactt': String must be one of: compact, delete",
    ),
    (
        "faults=[{at: 1s, fault: change-config, target: topic messages, config: {retention.ms: two}}]",
        "faults.0.config.retention.ms: Kafka 4.4.0 refuses 'two': Not a number of type LONG",
    ),
    (
        "faults=[{at: 1s, fault: change-config, target: broker 1, config: {log.retention.ms: 1d}}]",
        "faults.0.config.log.retention.ms: Kafka 4.4.0 refuses '1d': Not a number of type LONG",
    ),
]
_OF_MIRRORS = [
    ("offset.lag.max=10", None),
    ("dc1->dc2.tasks.max=2", None),
    ("producer.linger.ms=5", None),
    ("dc2.producer.override.linger.ms=5", None),
    ("source.consumer.max.poll.records=5", None),
    ("target.admin.request.timeout.ms=5000", None),
    ("transforms.any.type=x", None),
    ("offset.lags.max=10", "no setting of MirrorMaker 4.3.1; did you mean offset.lag.max?"),
    ("dc1->dc2.task.max=2", "did you mean dc1->dc2.tasks.max?"),
    ("producer.linger.millis=5", "did you mean producer.linger.ms?"),
    ("target.consumer.linger.ms=5", "no setting of MirrorMaker"),
    ("offset.lag.max=ten", "MirrorMaker 4.3.1 refuses 'ten'"),
    ("dc2.producer.linger.ms=soon", "refuses 'soon'"),
]


@pytest.fixture(scope="module", autouse=True)
def _asked_at_once() -> None:
    """A JVM for all of these values of brokers, and two for those of mirrors, not one for each of them."""
    java = find_java()
    brokers = [load_builtin("consumer-failover", [override]) for override, _ in _REFUSED]
    settings = [setting.partition("=") for setting, _ in _OF_MIRRORS]
    mirrors = [{name: value for name, _, value in each} for each in (settings, reversed(settings))]
    changes = [f"mirrors.0.config={json.dumps(config)}" for config in mirrors]
    with suppress(UsageError):
        every = [*brokers, *(load_builtin("mirror", [change]) for change in changes)]
        check_settings(every, java, lambda version: resolve(version, java))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "cluster.config.min.insync.replica=2",
            "--set cluster.config.min.insync.replica=2: no broker setting",
        ),
        ("cluster.config.min.insync.replica=2", "did you mean min.insync.replicas?"),
        ("cluster.config.unclean.leader.election.enabled=false", "mean unclean.leader.election.enable?"),
        ("topics.0.config.retention=5", "--set topics.0.config.retention=5: no topic setting of Kafka"),
        ("cluster.config.zookeeper.sesion.timeout.ms=5", "did you mean zookeeper.session.timeout.ms?"),
        (
            "cluster.config.linger.ms=5",
            "no broker setting of Kafka 4.4.0; leave it out (it is one of a producer)",
        ),
        ("topics.0.config.log.retention.ms=5", "did you mean retention.ms? (it is one of a broker)"),
        (f"{_GROUP}.config.partition.assignment.strategy=sticky", "strategy=sticky: Unsupported partition"),
        (f"{_PRODUCER}.config.linger.millis=5", f"no producer {_LIBRDKAFKA} linger.ms?"),
        (f"{_GROUP}.config.session.timeout=5", f"no consumer {_LIBRDKAFKA} session.timeout.ms?"),
        (f"{_PRODUCER}.config.linger.ms=soon", "linger.ms=soon: Invalid value"),
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
    assert [line.split(":")[0] for line in mistakes(*wrong)] == [f"--set {each}" for each in wrong]


def test_settings_of_listeners_and_plugins_are_accepted() -> None:
    """Kafka passes them on without knowing them."""
    assert mistakes("cluster.config.super.users=User:me") == []  # Kafka's own authorizer
    listener = "cluster.config.listener.name.internal.plain.sasl.jaas.config=x"
    assert mistakes(listener, "topics.0.config.retention.ms=5000") == []


def test_existing_cluster_is_only_checked_for_librdkafka() -> None:
    """Its brokers answer for themselves."""
    assert mistakes("topics.0.config.nonsense=1", own=False) == []
    with pytest.raises(UsageError, match="nonsense=1: no producer setting"):
        checked(f"{_PRODUCER}.config.nonsense=1", own=False)


def test_built_in_scenarios_only_have_known_settings() -> None:
    """All that run on the default version."""
    java, every, refused = find_java(), [*map(load_builtin, builtin_names())], ""
    try:
        check_settings(every, java, lambda version: resolve(version, java))
    except UsageError as error:
        refused = str(error)
    assert every and refused == ""


def test_settings_that_only_a_running_broker_takes_are_accepted_in_a_step() -> None:
    """Not in server.properties, and not for a topic."""
    for target, config, refused in (
        ("broker 1", "{leader.replication.throttled.rate: 1000}", 0),
        ("broker 1", "{leader.replication.throttled.rates: 1000}", 1),
        ("topic orders", "{leader.replication.throttled.rate: 1000}", 1),
        ("broker 1", "{message.max.bytes: 2000}", 0),
    ):
        step = f"{{at: 1s, fault: change-config, target: {target}, config: {config}}}"
        assert len(mistakes(f"faults=[{step}]")) == refused, target
    assert len(mistakes("cluster.config.leader.replication.throttled.rate=1000")) == 1


@pytest.mark.parametrize("version", ["4.4.0", "3.9.2"])
def test_setting_that_only_a_restart_changes_is_refused_in_a_step(version: str) -> None:
    """A broker refuses it while it runs; a listener's own settings are not among these."""
    for config, refused in (("{replica.lag.time.max.ms: 900}", True), ("{log.retention.ms: 900}", False)):
        step = f"{{at: 1s, fault: change-config, target: broker 1, config: {config}}}"
        sentence = "faults.0.config.replica.lag.time.max.ms: this can't change while a broker runs; write it"
        found = mistakes(f"cluster.kafka={version}", f"faults=[{step}]", allow_unknown=True)
        assert [sentence in line for line in found] == [True] * refused


def test_settings_are_held_to_the_versions_of_single_members_too() -> None:
    java = [f"{_GROUP}.client=java", f"{_GROUP}.config.client.rack=a"]
    assert not mistakes(*java, f"{_GROUP}.member-versions={{2: 3.9.2}}")
    newer = f"{_GROUP}.config.metadata.recovery.rebootstrap.trigger.ms=9"
    (line,) = mistakes(*java, newer, f"{_GROUP}.member-versions={{2: 3.9.2}}")
    assert "Kafka 3.9.2 does not know this consumer setting of Kafka 4.4.0" in line


def test_settings_of_single_members_are_checked_at_their_place() -> None:
    """Those of the group are named once; librdkafka refuses eager and cooperative strategies together."""
    own, two = f"{_GROUP}.member-config", f"{_GROUP}.members=2"
    assert not mistakes(f"{own}={{2: {{partition.assignment.strategy: roundrobin}}}}", two)
    (line,) = mistakes(f"{own}={{2: {{partition.assignment.strategy: 'range,cooperative-sticky'}}}}", two)
    assert "member-config.2.partition.assignment.strategy" in line and "ooperative" in line
    wrong = f"{own}={{2: {{fetch.min.byte: 1}}}}"
    found = mistakes(wrong, two, f"{_GROUP}.config.clint.id=x")
    assert ["member-config.2" in line for line in found] == [False, True] and "fetch.min.bytes" in found[1]
    (line,) = mistakes(f"{_GROUP}.client=java", two, wrong)
    assert "member-config.2.fetch.min.byte" in line and "fetch.min.bytes" in line
    (line,) = mistakes(two, f"{own}.2.fetch.min.byte=1")
    assert line.startswith(f"--set {own}.2.fetch.min.byte=1: no consumer setting")


def test_settings_of_members_and_of_a_mirror_are_each_asked_about_together(tmp_path: Path) -> None:
    """By one JVM; no answer is kept about a value that is new each time."""
    java, starts, value = find_java(), tmp_path / "starts", time.time_ns() % 10**9
    counting = tmp_path / "java"
    counting.write_text(f'#!/bin/sh\necho >> "{starts}"\nexec "{java.path}" "$@"\n')
    counting.chmod(0o755)
    members = {number: {name: value} for number, name in ((1, "fetch.min.bytes"), (2, "fetch.max.bytes"))}
    of_mirror = dict.fromkeys(("linger.ms", "fetch.min.bytes", "producer.linger.ms"), value)
    java_group = [f"{_GROUP}.client=java", f"{_GROUP}.members=2"]
    for scenario in (
        load_builtin("consumer-failover", [*java_group, f"{_GROUP}.member-config={members}"]),
        load_builtin("mirror", [f"mirrors.0.config={json.dumps(of_mirror)}"]),
    ):
        starts.unlink(missing_ok=True)
        check_settings([scenario], replace(java, path=counting), lambda version: resolve(version, java))
        assert starts.read_text() == "\n", scenario.title


def test_credentials_that_the_run_adds_are_not_missed(capfd: pytest.CaptureFixture[str]) -> None:
    """On an existing cluster they are in a file; and a client's debug output is for its run."""
    secured = [f"{_PRODUCER}.config.security.protocol=sasl_ssl", f"{_PRODUCER}.config.debug=all"]
    assert not mistakes(*secured, own=False)
    assert not mistakes(f"{_PRODUCER}.config.debug=all")
    assert not capfd.readouterr().err


def test_what_librdkafka_does_not_know_is_refused_in_any_case() -> None:
    """--allow-unknown helps brokers and Java's clients only: librdkafka would end the run."""
    unknown = f"{_PRODUCER}.config.nonsense=1"
    assert [
        line.endswith("also with --allow-unknown)") for line in mistakes(unknown, allow_unknown=True)
    ] == [True]
    plugins = ("cluster.config.nonsense=1", "topics.0.config.nonsense=1")
    assert mistakes(*plugins, allow_unknown=True) == []


def test_settings_that_librdkafka_refuses_together_are_named() -> None:
    """Each alone is right: the client would end at its start."""
    (line,) = mistakes(f"{_GROUP}.config.session.timeout.ms=1800000")
    assert line.endswith("session.timeout.ms=1800000: `max.poll.interval.ms` must be >= `session.timeout.ms`")


@pytest.mark.parametrize(
    ("version", "override", "sentence"),
    [
        (
            "4.4.0",
            "cluster.config.inter.broker.protocol.version=3",
            "does not know this broker setting of Kafka 3.9",
        ),
        (
            "4.4.0",
            "topics.0.config.message.format.version=3",
            "does not know this topic setting of Kafka 3.9",
        ),
        (
            "3.9.2",
            "cluster.config.group.streams.max.size=3",
            "does not know this broker setting of Kafka 4.4.0",
        ),
        (
            "3.9.2",
            "cluster.config.zookeeper.sesion.timeout.ms=3",
            "did you mean zookeeper.session.timeout.ms?",
        ),
    ],
)
def test_setting_of_another_version_is_named_with_it(version: str, override: str, sentence: str) -> None:
    """No other word is proposed for one that was removed, or came later."""
    resolve("4.4.0", find_java())
    (line,) = mistakes(f"cluster.kafka={version}", override)
    assert sentence in line


def test_table_of_kafka_3_is_what_its_jars_say() -> None:
    """What 3.9 knows and the newest does not."""
    java = find_java()
    old, new = (setting_names(resolve(version, java), java) for version in ("3.9.2", "4.4.0"))
    assert {kind: old[kind] - new[kind] for kind in _ONLY_3} == _ONLY_3


def test_table_of_librdkafka_is_what_it_and_java_say() -> None:
    """librdkafka knows each of its names, and Java's clients none; Java's equivalents are theirs."""
    java = find_java()
    names = setting_names(resolve("4.4.0", java), java)
    javas = names["producer"] | names["consumer"]
    assert not LIBRDKAFKA_ONLY.keys() & javas
    assert {each.partition(" ")[0] for each in LIBRDKAFKA_ONLY.values() if each} <= javas
    unknown = refused_by_librdkafka("producer", dict.fromkeys(LIBRDKAFKA_ONLY, ""), None)
    assert [name for name, why in unknown.items() if why.startswith("No such")] == []


@pytest.mark.parametrize(("override", "why"), _REFUSED)
def test_value_that_kafka_refuses_is_named(override: str, why: str) -> None:
    """In the words of its own definition, each time; a plugin has nothing to do with it."""
    assert [why in line for line in mistakes(override)] == [True]
    assert [why in line for line in mistakes(override, allow_unknown=True)] == [True]


def test_unknown_name_is_one_mistake_whatever_its_value() -> None:
    """The name of a broker's setting in a topic is wrong, with any value."""
    assert len(mistakes("topics.0.config.log.cleanup.policy=x")) == 1


def test_values_that_a_broker_looks_up_are_accepted() -> None:
    """Of a config.providers; and numbers, words and lists as people write them."""
    config = ("num.io.threads=${env:THREADS}", "log.cleanup.policy='compact,delete'", "num.partitions=' 3 '")
    assert mistakes(*(f"cluster.config.{each}" for each in config)) == []


def test_mistake_names_the_line_of_its_file(tmp_path: Path) -> None:
    """The scenario's, or that of the file which describes its cluster."""
    described = tmp_path / "server.properties"
    described.write_text("# num.io.thread=1\nnum.partitions=3\nnum.io.thread = 4\n")
    path = tmp_path / "mine.yaml"
    path.write_text(
        "version: 1\ntitle: x\ncluster:\n  config-file: server.properties\n  config:\n"
        "    num.network.thread: 4\ntopics:\n  - name: orders\n    config:\n      retention.mss: 4\n"
        "workload: {producers: [{topic: orders, messages: 10,\n  config: {linger.mss: 4}}]}\n"
    )
    java = find_java()
    with pytest.raises(UsageError) as raised:
        check_settings([load_file(path)], java, lambda version: resolve(version, java))
    assert [line.partition(" no ")[0] for line in sorted(str(raised.value).splitlines())] == [
        f"{path}:10: topics.0.config.retention.mss:",
        f"{path}:12: workload.producers.0.config.linger.mss:",
        f"{path}:6: cluster.config.num.network.thread:",
        f"{described}:3: num.io.thread:",
    ]


@pytest.mark.parametrize(("setting", "message"), _OF_MIRRORS)
def test_settings_of_mirrors_are_known_to_mirrormaker(setting: str, message: str | None) -> None:
    """Also those of its clients, with the prefixes that it takes; by its own definitions."""
    java = find_java()
    scenario = load_builtin("mirror", [f"mirrors.0.config.{setting}"])

    def refused(allow_unknown: bool) -> str:
        try:
            check_settings(
                [scenario], java, lambda version: resolve(version, java), allow_unknown=allow_unknown
            )
        except UsageError as error:
            return str(error)
        return ""

    text = refused(allow_unknown=False)
    assert (message or "") in text and bool(text) == (message is not None)
    assert bool(refused(allow_unknown=True)) == (message is not None and "refuses" in message)


def test_values_of_both_sides_of_a_mirror_are_judged() -> None:
    """Those of its source do not stand for those of its target."""
    java = find_java()
    sides = {"source.consumer.max.poll.records": "ten", "target.consumer.max.poll.records": 5}
    with pytest.raises(UsageError) as raised:
        scenario = load_builtin("mirror", [f"mirrors.0.config={json.dumps(sides)}"])
        check_settings([scenario], java, lambda version: resolve(version, java))
    (line,) = str(raised.value).splitlines()
    assert "source.consumer.max.poll.records" in line and "refuses 'ten'" in line
