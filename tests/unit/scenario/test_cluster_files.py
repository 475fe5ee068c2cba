"""A cluster described by its owner's files: what is taken over, and what is listed instead."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from kaput.cli.scenarios import app
from kaput.errors import UsageError
from kaput.scenario.cluster_files.reading import read_cluster
from kaput.scenario.loader import load_builtin, load_file

_PROPERTIES = """
broker.id=0
log.dirs=/data/kafka
listeners=SASL_SSL://:9092
ssl.keystore.location=/etc/kafka.jks
zookeeper.connect=z1:2181
default.replication.factor=4
num.partitions=6
min.insync.replicas=2
unclean.leader.election.enable = true
log.cleanup.policy: compact
"""
_COMPOSE = """
services:
  web: {image: nginx}
  kafka-1: &kafka
    image: confluentinc/cp-kafka:7.6.1
    environment:
      KAFKA_NODE_ID: 1
      KAFKA_PROCESS_ROLES: broker
      KAFKA_BROKER_RACK: a
      KAFKA_MIN_INSYNC_REPLICAS: ${MIN_ISR:-2}
      KAFKA_LOG4J_ROOT_LOGLEVEL: WARN
      KAFKA_AUTO_CREATE_TOPICS_ENABLE: false
  kafka-2:
    <<: *kafka
    environment:
      - KAFKA_PROCESS_ROLES=broker
      - KAFKA_BROKER_RACK=b
      - KAFKA_MIN_INSYNC_REPLICAS=1
  controller:
    image: confluentinc/cp-kafka:7.6.1
    environment: {KAFKA_PROCESS_ROLES: controller}
"""
_STRIMZI = """
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaNodePool
metadata: {name: brokers}
spec: {replicas: 5, roles: [broker]}
---
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaNodePool
metadata: {name: controllers}
spec: {replicas: 3, roles: [controller]}
---
apiVersion: kafka.strimzi.io/v1beta2
kind: Kafka
metadata: {name: mine}
spec:
  kafka:
    version: 4.3.1
    listeners: [{name: tls, port: 9093, type: internal, tls: true}]
    rack: {topologyKey: topology.kubernetes.io/zone}
    config: {default.replication.factor: 3, min.insync.replicas: 2, ssl.cipher.suites: X}
---
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaTopic
metadata: {name: payments}
spec: {partitions: 12, replicas: 3, config: {retention.ms: 7200000}}
"""


_CLASSES = """
broker.rack=use1-az1
metric.reporters=io.confluent.metrics.reporter.ConfluentMetricsReporter
confluent.license.topic.replication.factor=3
client.quota.callback.class=com.acme.Quota
client.quota.callback.static.produce=1000
config.providers=file
config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
group.consumer.assignors=uniform,com.acme.Assignor
group.share.assignors=org.apache.kafka.coordinator.group.assignor.SimpleAssignor
group.streams.assignors=sticky
replica.selector.class=com.acme.Selector
remote.log.storage.manager.class.name=com.acme.Remote
principal.builder.class=com.acme.Principals
log.retention.ms=${file:/opt/secrets:retention}
compression.type=${env:COMPRESSION}
num.partitions={{ partitions }}
message.max.bytes=
zookeeper.session.timeout.ms=18000
"""


def _written(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text)
    return folder / name


def test_properties_of_one_broker(tmp_path: Path) -> None:
    """As many brokers as its replication factor needs; with ZooKeeper if it names one."""
    described = read_cluster(_written(tmp_path, "server.properties", _PROPERTIES))
    assert described.cluster == {
        "mode": "zookeeper",
        "brokers": 4,
        "config": {
            "default.replication.factor": 4,
            "num.partitions": 6,
            "min.insync.replicas": 2,
            "unclean.leader.election.enable": True,
            "log.cleanup.policy": "compact",
        },
    }
    names = [line.partition(":")[0] for line in described.replaced]
    assert names == [
        str(tmp_path / "server.properties"), "number of brokers", "broker.id", "log.dirs", "listeners",
        "ssl.keystore.location", "zookeeper.connect",
    ]  # fmt: skip


def test_settings_that_need_what_is_not_here_are_listed_with_the_reason(tmp_path: Path) -> None:
    """Classes and plugins, what config providers and templates fill in; Kafka's own classes are taken."""
    described = read_cluster(_written(tmp_path, "server.properties", _CLASSES))
    assert described.cluster["config"] == {
        "group.share.assignors": "org.apache.kafka.coordinator.group.assignor.SimpleAssignor",
        "group.streams.assignors": "sticky",
    }
    assert described.replaced[2:] == [
        "broker.rack: each broker has another one; cluster.racks is for them",
        "metric.reporters: io.confluent.metrics.reporter.ConfluentMetricsReporter is not here",
        "confluent.license.topic.replication.factor: its plugin is not here",
        "client.quota.callback.class: its plugin is not here",
        "client.quota.callback.static.produce: its plugin is not here",
        "config.providers: its plugin is not here",
        "config.providers.file.class: its plugin is not here",
        "group.consumer.assignors: uniform,com.acme.Assignor is not here",
        "replica.selector.class: com.acme.Selector is not here",
        "remote.log.storage.manager.class.name: kaput sets its own",
        "principal.builder.class: its plugin is not here",
        "log.retention.ms: ${file:/opt/secrets:retention} is what a config provider knows, which is not here",
        "compression.type: ${env:COMPRESSION} is what a config provider knows, which is not here",
        "num.partitions: {{ partitions }} is not filled in",
        "message.max.bytes: it has no value",
        "zookeeper.session.timeout.ms: the cluster has no ZooKeeper",
    ]


@pytest.mark.parametrize(
    ("text", "cluster"),
    [
        # as Kafka 4 ships it
        ("process.roles=broker,controller\ncontroller.quorum.bootstrap.servers=a:1", {"brokers": 3}),
        ("process.roles=broker,controller\ncontroller.quorum.voters=1@a:1,2@b:1,3@c:1,4@d:1", {"brokers": 4}),
        (
            "process.roles=broker\ncontroller.quorum.voters=1@a:1,2@b:1,3@c:1",
            {"brokers": 3, "controllers": 3},
        ),
        (
            "process.roles=controller\ncontroller.quorum.bootstrap.servers=a:1",
            {"brokers": 3, "controllers": 1},
        ),
        (
            "zookeeper.connect=a:1,b:1,c:1/kafka\nbroker.id=${BROKER_ID}",
            {"mode": "zookeeper", "brokers": 3, "zookeepers": 3},
        ),
    ],
)
def test_nodes_with_the_metadata_are_counted(text: str, cluster: dict[str, Any], tmp_path: Path) -> None:
    """Those of KRaft and of ZooKeeper; a quorum of brokers that the run cannot have is listed."""
    described = read_cluster(_written(tmp_path, "server.properties", text + "\n"))
    assert described.cluster == {**cluster, "config": {}}
    assert ("voters: 4 of the brokers; in the run, 3" in described.replaced) == (cluster["brokers"] == 4)


def test_compose_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Services with an image of Kafka; Confluent's versions are translated; differences are listed."""
    monkeypatch.delenv("MIN_ISR", raising=False)
    described = read_cluster(_written(tmp_path, "docker-compose.yml", _COMPOSE))
    assert described.cluster == {
        "kafka": "3.6.0",
        "brokers": 2,
        "controllers": 1,
        "racks": ["a", "b"],
        "config": {"min.insync.replicas": 2, "auto.create.topics.enable": False},
    }
    assert not [line for line in described.replaced if "rack" in line]  # it was taken over
    assert "kafka-2: min.insync.replicas=1: all brokers have those of kafka-1" in described.replaced
    monkeypatch.setenv("MIN_ISR", "3")
    assert read_cluster(tmp_path / "docker-compose.yml").cluster["config"]["min.insync.replicas"] == 3


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("apache/kafka:3.9.1", "3.9.1"),
        ("bitnami/kafka:3.7.0-debian-12-r1", "3.7.0"),
        ("confluentinc/cp-server:8.1.0", "4.1.0"),
        ("registry/kafka@sha256:abc", None),
        ("apache/kafka:latest", None),
        ("bitnami/kafka:3.7", "3.7.0"),
        ("strimzi/kafka:0.40.0-kafka-3.7.0", "3.7.0"),
        ("confluentinc/cp-kafka:7.5", "3.5.0"),
    ],
)
def test_version_is_that_of_the_image(image: str, version: str | None, tmp_path: Path) -> None:
    """A tag that is no version is listed."""
    text = yaml.safe_dump({"services": {"kafka": {"image": image}}})
    described = read_cluster(_written(tmp_path, "compose.yaml", text))
    assert described.cluster.get("kafka") == version
    assert any("no version of Kafka" in line for line in described.replaced) == (version is None)


def test_compose_counts_containers_and_reads_the_files_of_its_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`scale` and `deploy.replicas`; `.env`, `env_file`, defaults in defaults; names without a value."""
    for name in ("KAFKA_TAG", "MIN_ISR", "OTHER_ISR", "KAFKA_LOG_RETENTION_HOURS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KAFKA_NUM_PARTITIONS", "12")
    _written(tmp_path, ".env", '# of all\nexport KAFKA_TAG="3.9.1" # newest\nRACK=\n')
    _written(tmp_path, "broker.env", "KAFKA_LOG_RETENTION_MS=1000\nKAFKA_MIN_INSYNC_REPLICAS=1\n")
    text = """
    services:
      controller:
        image: "apache/kafka:${KAFKA_TAG:?say which}"
        environment: {KAFKA_PROCESS_ROLES: controller}
        scale: 3
      first: &broker
        image: "apache/kafka:${KAFKA_TAG}"
        env_file: [broker.env, {path: missing.env, required: false}]
        environment:
          - KAFKA_PROCESS_ROLES=broker
          - KAFKA_MIN_INSYNC_REPLICAS=${MIN_ISR:-${OTHER_ISR:-2}}
          - KAFKA_COMPRESSION_TYPE=${KAFKA_TAG:+lz4}
          - KAFKA_NUM_PARTITIONS
          - KAFKA_LOG_RETENTION_HOURS
      others: {<<: *broker, deploy: {replicas: 2}}
      unused: {<<: *broker, deploy: {replicas: 0}}
    """
    described = read_cluster(_written(tmp_path, "compose.yaml", text))
    assert described.cluster == {
        "kafka": "3.9.1",
        "brokers": 3,
        "controllers": 3,
        "config": {
            "log.retention.ms": 1000,
            "min.insync.replicas": 2,
            "compression.type": "lz4",
            "num.partitions": 12,
        },
    }
    _written(tmp_path, ".env", "")
    with pytest.raises(UsageError, match=r"compose.yaml:4: .*say which\}: set KAFKA_TAG in the env"):
        read_cluster(tmp_path / "compose.yaml")


@pytest.mark.parametrize(
    ("service", "mistake"),
    [
        ({"scale": "many"}, "service kafka: 'many' is not a number of containers"),
        ({"deploy": {"replicas": -1}}, "service kafka: '-1' is not a number of containers"),
        ({"env_file": [{"required": False}]}, r"env_file: \{'required': False\} has no path"),
    ],
)
def test_compose_mistakes_are_named(service: dict[str, Any], mistake: str, tmp_path: Path) -> None:
    """With the file."""
    text = yaml.safe_dump({"services": {"kafka": {"image": "apache/kafka:3.9.1", **service}}})
    with pytest.raises(UsageError, match=rf"compose\.yaml:\d+: {mistake}"):
        read_cluster(_written(tmp_path, "compose.yaml", text))


def test_variables_of_an_images_own_scripts_are_no_settings(tmp_path: Path) -> None:
    """Bitnami's name settings KAFKA_CFG_...; the others of theirs are for users and passwords."""
    environment = {
        "KAFKA_CFG_MIN_INSYNC_REPLICAS": 2,
        "KAFKA_CLIENT_USERS": "me",
        "KAFKA_INTER_BROKER_PASSWORD": "secret",
        "KAFKA_GC_LOG_OPTS": "-Xlog:gc",
    }
    for image, config in (
        ("bitnami/kafka:3.7", {"min.insync.replicas": 2}),
        ("apache/kafka:3.9.1", {"min.insync.replicas": 2, "client.users": "me"}),
    ):
        if "apache" in image:
            del environment["KAFKA_INTER_BROKER_PASSWORD"]
        text = yaml.safe_dump({"services": {"kafka": {"image": image, "environment": environment}}})
        assert read_cluster(_written(tmp_path, "compose.yaml", text)).cluster["config"] == config


@pytest.mark.parametrize("name", ["kafka.yaml", "kafka.json"])
def test_list_of_kubectl(name: str, tmp_path: Path) -> None:
    """What `kubectl get kafka,kafkanodepool,kafkatopic -o yaml` prints, or `-o json`."""
    resources = list(yaml.safe_load_all(_STRIMZI))
    listed = {"apiVersion": "v1", "kind": "List", "items": resources}
    described = read_cluster(
        _written(tmp_path, name, json.dumps(listed, indent="\t" if name.endswith("json") else 4))
    )
    assert (described.cluster["brokers"], described.topics[0]["name"]) == (5, "payments")


@pytest.mark.parametrize("setting", ["num.partitions=abc", "default.replication.factor=3.0", "broker.id=x"])
def test_count_that_is_no_number_is_a_mistake(setting: str, tmp_path: Path) -> None:
    """With its line."""
    path = _written(tmp_path, "server.properties", f"# ours\n{setting}\n")
    done = CliRunner().invoke(app, ["from", str(path)])
    assert isinstance(done.exception, UsageError)
    assert f"server.properties:2: {setting} is not a whole number" in str(done.exception)


def test_strimzi_resources(tmp_path: Path) -> None:
    """Node pools, racks, settings and topics."""
    described = read_cluster(_written(tmp_path, "kafka.yaml", _STRIMZI))
    assert described.cluster == {
        "kafka": "4.3.1",
        "brokers": 5,
        "controllers": 3,
        "racks": ["zone-1", "zone-2", "zone-3"],
        "config": {"default.replication.factor": 3, "min.insync.replicas": 2},
    }
    assert described.topics == [
        {"name": "payments", "partitions": 12, "replication-factor": 3, "config": {"retention.ms": 7200000}}
    ]
    assert [line.partition(":")[0] for line in described.replaced] == [
        "rack topology.kubernetes.io/zone", "spec.kafka.listeners", "ssl.cipher.suites",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("server.properties", "# nothing\n", "has no settings"),
        ("compose.yaml", "services: {web: {image: nginx}}", "no service has an image of Kafka"),
        ("compose.yaml", "services: {kafka: [1]}", "services.kafka is not a mapping"),
        ("kafka.yaml", "apiVersion: kafka.strimzi.io/v1\nkind: KafkaTopic", "has no resource of kind Kafka"),
        ("kafka.yaml", "a: 1", "has neither services"),
        ("kafka.yaml", "a: [", "1:5: not valid YAML"),
        ("kafka.yaml", 'a: "\\U00110000"', "1:7: not valid YAML: chr"),
        (
            "compose.yaml",
            "services:\n  kafka:\n    <<: *all",
            "3:9: not valid YAML: found undefined alias 'all'",
        ),
        ("server.properties", "services: {}\n", "has services, as YAML files have"),
        (
            "kcat.conf",
            "# mine\nbootstrap.servers=a:1\nsasl.mechanisms=PLAIN\n",
            ":2: bootstrap.servers is a client's",
        ),
        (
            "topics.tf",
            'resource "x" "y" {\n  partitions = 12\n}\n',
            ":1: resource is no setting of a broker, nor",
        ),
        ("describe.txt", "Topic: orders\tPartitionCount: 2\n", ":1: Topic is no setting of a broker, nor"),
        ("server.properties", "\x7fELF\x02", "not a text file .byte 0 is 0x7f"),
        ("compose.yaml", "\x1f\x08", "not a text file .byte 0 is 0x1f"),
        ("missing.properties", None, "no such file"),
    ],
)
def test_other_files_are_mistakes(name: str, text: str | None, message: str, tmp_path: Path) -> None:
    if text is not None:
        _written(tmp_path, name, text)
    with pytest.raises(UsageError, match=f"{name}.*{message}"):
        read_cluster(tmp_path / name)


def test_scenario_names_a_file_next_to_it(tmp_path: Path) -> None:
    """The keys of its own cluster block win."""
    _written(tmp_path, "server.properties", _PROPERTIES)
    block = {"config-file": "server.properties", "brokers": 5, "config": {"min.insync.replicas": 1}}
    data = load_builtin("noop").dump() | {"cluster": block}
    path = _written(tmp_path, "mine.yaml", yaml.safe_dump(data))
    scenario = load_file(path)
    done = CliRunner().invoke(app, ["check", str(path)])
    count = len(read_cluster(tmp_path / "server.properties").replaced)
    assert f"server.properties: {count} differences from it in the run; kaput scenarios from" in done.stderr
    assert (scenario.cluster.brokers, scenario.cluster.mode, scenario.cluster.kafka) == (
        5,
        "zookeeper",
        "3.9.2",
    )
    assert scenario.cluster.config["min.insync.replicas"] == 1
    assert scenario.cluster.config["num.partitions"] == 6
    assert "config-file" not in scenario.dump()["cluster"]


def test_change_to_a_file_wins_over_the_scenario(tmp_path: Path) -> None:
    """And a later change wins over the file."""
    path = _written(
        tmp_path, "server.properties", "min.insync.replicas=3\nunclean.leader.election.enable=true\n"
    )
    changes = [f"cluster.config-file={path}", "cluster.config.min.insync.replicas=1"]
    config = load_builtin("leader-kill-acks-all", changes).cluster.config
    assert (config["unclean.leader.election.enable"], config["min.insync.replicas"]) == (True, 1)


def test_scenario_is_made_of_a_file(tmp_path: Path) -> None:
    """Valid as it is printed; the topics are theirs, also in targets; what it expects is left out."""
    path = _written(tmp_path, "kafka.yaml", _STRIMZI)
    done = CliRunner().invoke(app, ["from", str(path)])
    assert done.exit_code == 0, done.output
    assert "#   spec.kafka.listeners: kaput sets its own\n" in done.output
    scenario = load_file(_written(tmp_path, "ours.yaml", done.output))
    assert (scenario.topics[0].name, scenario.topics[0].partitions) == ("payments", 12)
    assert str(scenario.faults[0].target) == "leader-of payments/0"
    assert scenario.cluster.config["min.insync.replicas"] == 2
    assert not scenario.dump()["expect"].get("verdict")
    document = json.loads(CliRunner().invoke(app, ["from", str(path), "--json"]).output)
    assert document["scenario"]["cluster"]["brokers"] == 5


def test_settings_that_could_not_be_checked_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the jars of its Kafka are not on this machine."""
    monkeypatch.setattr("kaput.runner.setting_check.cached", lambda version: None)
    path = _written(tmp_path, "server.properties", "num.partitons=3\n")
    done = CliRunner().invoke(app, ["from", str(path)])
    assert "# Names of settings are not checked: the jars of its Kafka are not here\n" in done.output
    assert json.loads(CliRunner().invoke(app, ["from", str(path), "--json"]).output)["unknown"] is None


def test_what_the_faults_need_comes_from_the_scenario_that_it_is_like(tmp_path: Path) -> None:
    """A second log directory, disks, stores; several clusters are none that one file describes."""
    path = _written(tmp_path, "server.properties", "process.roles=broker\ncontroller.quorum.voters=1@a:1\n")
    for like in ("log-dir-failure", "leader-disk-full-acks-1", "memory-pressure", "kafka-away", "disk-loss"):
        done = CliRunner().invoke(app, ["from", str(path), "--like", like])
        assert done.exit_code == 0, (like, done.exception)
        load_file(_written(tmp_path, "ours.yaml", done.output))
    done = CliRunner().invoke(app, ["from", str(path), "--like", "mirror"])
    assert "server.properties: describes one cluster, and mirror has several" in str(done.exception)


@pytest.mark.parametrize("text", ["title: x", "cluster: [1]", "topics: [orders]", "topics: {name: a}"])
def test_mistakes_in_the_scenario_that_it_is_like_have_its_lines(text: str, tmp_path: Path) -> None:
    path = _written(tmp_path, "server.properties", "num.partitions=1\n")
    like = _written(tmp_path, "like.yaml", f"version: 1\n{text}\n")
    done = CliRunner().invoke(app, ["from", str(path), "--like", str(like)])
    assert isinstance(done.exception, UsageError)
    assert f"{like}:" in str(done.exception)


def test_topics_that_nothing_happens_to_are_listed(tmp_path: Path) -> None:
    more = "---\napiVersion: kafka.strimzi.io/v1\nkind: KafkaTopic\nmetadata: {name: refunds}\n"
    path = _written(tmp_path, "kafka.yaml", _STRIMZI + more)
    done = CliRunner().invoke(app, ["from", str(path)])
    assert "#   topic refunds: left out; what happens needs 1 topic\n" in done.output


def test_scenario_that_does_not_fit_the_cluster_is_a_mistake(tmp_path: Path) -> None:
    """More replicas than brokers, as no topic of theirs could have."""
    service = "{image: apache/kafka, environment: {KAFKA_DEFAULT_REPLICATION_FACTOR: 3}}"
    path = _written(tmp_path, "compose.yaml", f"services: {{kafka: {service}}}")
    done = CliRunner().invoke(app, ["from", str(path)])
    assert isinstance(done.exception, UsageError)
    assert "compose.yaml, like leader-kill-acks-all:" in str(done.exception)
    assert "replication-factor" in str(done.exception)


def test_cluster_of_one_broker_has_one_replica(tmp_path: Path) -> None:
    """As most Compose files describe it; what its topics do not say is not made up."""
    path = _written(tmp_path, "compose.yaml", "services: {kafka: {image: 'apache/kafka:4.1.0'}}")
    done = CliRunner().invoke(app, ["from", str(path)])
    assert done.exit_code == 0, done.output
    scenario = load_file(_written(tmp_path, "ours.yaml", done.output))
    assert (scenario.cluster.brokers, scenario.topics[0].replication_factor) == (1, 1)


def test_values_that_a_script_fills_in_and_comments_in_a_line(tmp_path: Path) -> None:
    """As envsubst has them; java.util.Properties has no comments behind a value."""
    path = tmp_path / "server.properties"
    path.write_text("log.retention.hours=$RETENTION\nnum.partitions=6\n")
    described = read_cluster(path)
    assert "log.retention.hours: $RETENTION is not filled in" in described.replaced
    path.write_text("replica.fetch.max.bytes=1048576 # 1 MB\n")
    with pytest.raises(UsageError, match=r":1: .* is not a whole number; a comment has a line of its own"):
        read_cluster(path)
