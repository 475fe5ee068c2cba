"""Compose files as people publish them: which services are nodes of the cluster, and which are listed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kaput.errors import UsageError
from kaput.scenario.cluster_files.reading import read_cluster

_KAFKAS_OWN = """
services:
  controller-1: &controller
    image: ${IMAGE_OF_THIS_TEST:-apache/kafka:3.9.0}
    environment:
      KAFKA_PROCESS_ROLES: controller
      KAFKA_CONTROLLER_QUORUM_VOTERS: 1@controller-1:9093,2@controller-2:9093,3@controller-3:9093
  controller-2: *controller
  controller-3: *controller
  broker-1: &broker
    image: ${IMAGE_OF_THIS_TEST:-apache/kafka:3.9.0}
    environment: &environment
      KAFKA_PROCESS_ROLES: broker
      KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://broker-1:19092
      KAFKA_CONTROLLER_QUORUM_VOTERS: 1@controller-1:9093,2@controller-2:9093,3@controller-3:9093
      KAFKA_MIN_INSYNC_REPLICAS: 2
  broker-2: {<<: *broker, environment: {<<: *environment, KAFKA_NODE_ID: 5}}
  kafka-init:
    image: apache/kafka:3.9.0
    entrypoint: [/bin/sh, -c]
    command: "/opt/kafka/bin/kafka-topics.sh --bootstrap-server broker-1:19092 --create --topic orders"
  topics: {<<: *broker, command: [sh, -c, cub kafka-ready -b broker-1:19092 2 60]}
  init-kafka: {image: apache/kafka:3.9.0, command: sh -c /scripts/create.sh}
  kafka-ui: {image: "provectuslabs/kafka-ui:latest", environment: {KAFKA_CLUSTERS_0_NAME: local}}
  app: {build: .}
"""
_CONFLUENTS = """
services:
  broker:
    image: confluentinc/cp-kafka:7.7.1
    environment: {KAFKA_PROCESS_ROLES: 'broker,controller', KAFKA_CONTROLLER_QUORUM_VOTERS: '1@broker:29093'}
    command: "bash -c 'if [ ! -f /tmp/update_run.sh ]; then exit 1; fi; kafka-storage format;
      /etc/confluent/docker/run'"
"""
_BITNAMIS = """
x-all: &all
  image: bitnamilegacy/kafka:3.9
  environment: &environment
    KAFKA_CFG_PROCESS_ROLES: controller,broker
    KAFKA_CFG_CONTROLLER_QUORUM_VOTERS: 0@kafka-0:9093,1@kafka-1:9093,2@kafka-2:9093
    KAFKA_CFG_AUTO_CREATE_TOPICS_ENABLE: "false"
services:
  kafka-0: {<<: *all, environment: {<<: *environment, KAFKA_CFG_BROKER_RACK: az1}}
  kafka-1: {<<: *all, environment: {<<: *environment, KAFKA_CFG_BROKER_RACK: az2}}
  kafka-2: {<<: *all, environment: {<<: *environment, KAFKA_CFG_BROKER_RACK: az3}}
  create-topics: {<<: *all, command: [/bin/bash, -c, "sleep 5; kafka-topics.sh --create"]}
"""
_WURSTMEISTERS = """
services:
  zookeeper: {image: wurstmeister/zookeeper}
  kafka:
    image: wurstmeister/kafka:2.13-2.8.1
    environment:
      KAFKA_ADVERTISED_HOST_NAME: 192.168.99.100
      KAFKA_ZOOKEEPER_CONNECT: zookeeper:2181
      KAFKA_CREATE_TOPICS: "orders:1:3,bills:1:1"
      KAFKA_BROKER_ID_COMMAND: "hostname | awk '{print $$2}'"
    deploy: {replicas: 3}
"""
_TWO_CLUSTERS = """
services:
  source-1: &source
    image: confluentinc/cp-kafka:7.7.0
    environment: {KAFKA_ZOOKEEPER_CONNECT: "zk-a:2181,zk-b:2181,zk-c:2181"}
  source-2: *source
  target: {image: "confluentinc/cp-kafka:7.7.0", environment: {KAFKA_ZOOKEEPER_CONNECT: "zk-z:2181"}}
  mirror: {image: "confluentinc/cp-kafka:7.7.0", command: connect-mirror-maker /etc/mm2.properties}
"""
_DEBEZIUMS = """
services:
  kafka: {image: "quay.io/debezium/kafka:2.5", environment: [ZOOKEEPER_CONNECT=zookeeper:2181]}
"""
_STRIMZIS = """
services:
  zookeeper:
    image: quay.io/strimzi/kafka:0.40.0-kafka-3.7.0
    command: [sh, -c, bin/zookeeper-server-start.sh config/zookeeper.properties]
  kafka:
    image: quay.io/strimzi/kafka:0.40.0-kafka-3.7.0
    command: [sh, -c, "bin/kafka-server-start.sh config/server.properties --override listeners=$${L}"]
    environment: {KAFKA_ZOOKEEPER_CONNECT: "zookeeper:2181"}
"""
_RED_HATS = "services: {kafka: {image: 'registry.redhat.io/amq-streams/kafka-39-rhel9:2.9.0'}}"
_BUILT = """
include: [more.yaml]
services:
  kafka:
    build: ./kafka
    volumes: ["./server.properties:/mnt/shared/config", "data:/var/lib/kafka/data"]
    environment: [KAFKA_PROCESS_ROLES=broker, "KAFKA_LOG_RETENTION_MS=${NOT_SET_IN_THIS_TEST}"]
  second: {image: "apache/kafka:4.1.0", profiles: [cluster]}
  third: {image: "apache/kafka:4.1.0", scale: 0}
  web: {image: nginx, env_file: nothing.env, environment: {URL: "${NOT_SET_EITHER}"}}
"""


@pytest.mark.parametrize(
    ("text", "cluster", "left_out"),
    [
        (
            _KAFKAS_OWN,
            {"kafka": "3.9.0", "brokers": 2, "controllers": 3, "config": {"min.insync.replicas": 2}},
            [
                "service kafka-init: its command starts no broker",
                "service topics: its command starts no broker",
                "service init-kafka: its command starts no broker",
                "service kafka-ui: image provectuslabs/kafka-ui:latest is not known to be Kafka",
                "service app: what it builds is not known to be Kafka",
            ],
        ),
        (_CONFLUENTS, {"kafka": "3.7.0", "brokers": 1, "config": {}}, []),
        (
            _BITNAMIS,
            {
                "kafka": "3.9.0",
                "brokers": 3,
                "racks": ["az1", "az2", "az3"],
                "config": {"auto.create.topics.enable": False},
            },
            ["service create-topics: its command starts no broker"],
        ),
        (
            _WURSTMEISTERS,
            {"mode": "zookeeper", "kafka": "2.8.1", "brokers": 3, "config": {}},
            [
                "service zookeeper: image wurstmeister/zookeeper is not known to be Kafka",
                "service kafka: KAFKA_CREATE_TOPICS=orders:1:3,bills:1:1: topics of an image's own script",
            ],
        ),
        (
            _TWO_CLUSTERS,
            {"mode": "zookeeper", "kafka": "3.7.0", "brokers": 2, "zookeepers": 3, "config": {}},
            [
                "service mirror: its command starts no broker",
                "service target: of another cluster than source-1",
            ],
        ),
        (
            _STRIMZIS,
            {"mode": "zookeeper", "kafka": "3.7.0", "brokers": 1, "config": {}},
            [
                "service zookeeper: its command starts no broker",
                "service kafka: --override in its command: those settings are not read",
            ],
        ),
        (_RED_HATS, {"kafka": "3.9.0", "brokers": 1, "config": {}}, []),
        (_DEBEZIUMS, {"mode": "zookeeper", "brokers": 1, "config": {}}, []),
        (
            _BUILT,
            {"brokers": 1, "config": {}},
            [
                "service kafka: volume ./server.properties:/mnt/shared/config: settings in it are not read",
                "service second: only in the profile cluster (COMPOSE_PROFILES)",
                "service third: has no container",
                "service web: image nginx is not known to be Kafka",
                "include: not read; `docker compose config` prints all in one file",
                "variable NOT_SET_IN_THIS_TEST: not set, and so empty",
            ],
        ),
    ],
)
def test_published_files(text: str, cluster: dict[str, Any], left_out: list[str], tmp_path: Path) -> None:
    """Kafka's, Confluent's, Bitnami's, wurstmeister's, Strimzi's, Debezium's; with other services."""
    (tmp_path / "compose.yaml").write_text(text)
    described = read_cluster(tmp_path / "compose.yaml")
    assert described.cluster == cluster
    parts = ("service ", "include", "variable ")
    assert [line for line in described.replaced if line.startswith(parts)] == left_out


def test_version_that_kaput_does_not_run_is_listed(tmp_path: Path) -> None:
    """And ZooKeeper's mode without a version has the last Kafka that knows it."""
    (tmp_path / "compose.yaml").write_text(_WURSTMEISTERS)
    old = "compose.yaml:4: image wurstmeister/kafka:2.13-2.8.1: kaput runs Kafka 3.7.0 and newer"
    assert any(old in line for line in read_cluster(tmp_path / "compose.yaml").replaced)
    (tmp_path / "compose.yaml").write_text(_DEBEZIUMS)
    last = "compose.yaml:3: image quay.io/debezium/kafka:2.5: no version of Kafka; the run has 3.9.2"
    assert any(last in line for line in read_cluster(tmp_path / "compose.yaml").replaced)


def test_node_may_be_started_by_a_script_of_the_owners(tmp_path: Path) -> None:
    """A host in it that is called as Kafka's tools are is no tool."""
    (tmp_path / "compose.yaml").write_text("""
    services:
      kafka:
        image: apache/kafka:4.1.0
        command: bash -c "sleep 10; /wait-for-it.sh kafka-controller:9093; /start.sh"
        environment: {KAFKA_PROCESS_ROLES: broker}
    """)
    assert read_cluster(tmp_path / "compose.yaml").cluster["brokers"] == 1


def test_rack_has_a_name_that_a_scenario_can_have(tmp_path: Path) -> None:
    """Kafka takes any; and a service on each machine of a swarm counts as one."""
    (tmp_path / "compose.yaml").write_text("""
    services:
      kafka:
        image: apache/kafka:4.1.0
        deploy: {mode: global}
        environment: {KAFKA_BROKER_RACK: eu west/1}
    """)
    described = read_cluster(tmp_path / "compose.yaml")
    assert described.cluster == {"kafka": "4.1.0", "brokers": 1, "racks": ["eu-west-1"], "config": {}}
    assert described.replaced == [
        "service kafka: deploy.mode global: as many as there are machines; it counts as one",
        "rack eu west/1: its name is eu-west-1",
    ]


def test_file_that_compose_would_merge_is_listed(tmp_path: Path) -> None:
    (tmp_path / "compose.yaml").write_text(_RED_HATS)
    (tmp_path / "compose.override.yaml").write_text("services: {}")
    merged = "compose.override.yaml: not read; `docker compose config` prints all in one file"
    assert merged in read_cluster(tmp_path / "compose.yaml").replaced


def test_service_has_what_it_extends(tmp_path: Path) -> None:
    """Also of another file, with its own env_file; what the service says itself wins."""
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "base.env").write_text("KAFKA_NUM_PARTITIONS=6\nKAFKA_LOG_RETENTION_MS=1000\n")
    (tmp_path / "base" / "base.yaml").write_text(
        "services: {all: {image: 'apache/kafka:4.1.0', scale: 2, env_file: base.env}}"
    )
    (tmp_path / "compose.yaml").write_text("""
    services:
      first: {extends: {file: base/base.yaml, service: all}, environment: {KAFKA_NUM_PARTITIONS: 3}}
      second: {extends: first, scale: 1}
    """)
    assert read_cluster(tmp_path / "compose.yaml").cluster == {
        "kafka": "4.1.0",
        "brokers": 3,
        "config": {"num.partitions": 3, "log.retention.ms": 1000},
    }


@pytest.mark.parametrize(
    ("service", "mistake"),
    [
        ("extends: {file: nothing.yaml, service: a}", r"3: extends: .*nothing\.yaml: no such file"),
        ("extends: {service: a}", r"3: extends: .*compose\.yaml has no service a"),
        ("extends: kafka", "3: service kafka extends itself"),
        ("env_file: nothing.env", r"3: env_file: .*nothing\.env: no such file"),
        ("image: 'apache/kafka:${NOT_SET_IN_THIS_TEST:?which}'", r"3: .*: set NOT_SET_IN_THIS_TEST in the"),
        (
            "environment: {KAFKA_A: '${file:/a:b}'}",
            r"3: \$\{file:/a:b\}: no variable of Compose; write \$\$\{",
        ),
        ("environment: KAFKA_A=1", "3: services.kafka.environment is not a mapping"),
        ("image: apache/kafka\n    image: kafka", "4:5: not valid YAML: image is given twice"),
        ("environment:\n    - KAFKA_A: 1", "4: {'KAFKA_A': 1} is not NAME=VALUE"),
        ("environment:\n    - KAFKA_A = 1", "4: KAFKA_A = 1 is not NAME=VALUE"),
        ("environment: {KAFKA_A: [1]}", "3: a variable's value is one text"),
        (
            "image: apache/kafka\n    environment:\n      KAFKA_NUM_PARTITIONS: many",
            "5: num.partitions=many is",
        ),
        (
            "image: apache/kafka\n    environment:\n    - KAFKA_NODE_ID=one",
            "5: node.id=one is not a whole number",
        ),
    ],
)
def test_mistakes_are_named_with_file_and_line(service: str, mistake: str, tmp_path: Path) -> None:
    (tmp_path / "compose.yaml").write_text(f"services:\n  kafka:\n    {service}\n")
    with pytest.raises(UsageError, match=rf"compose\.yaml:{mistake}"):
        read_cluster(tmp_path / "compose.yaml")


def test_numbers_of_an_env_file_are_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "broker.env").write_text("# ours\nKAFKA_MIN_INSYNC_REPLICAS=two\n")
    (tmp_path / "compose.yaml").write_text("services: {kafka: {image: apache/kafka, env_file: broker.env}}")
    with pytest.raises(UsageError, match=r"broker\.env:2: min\.insync\.replicas=two is not a whole number"):
        read_cluster(tmp_path / "compose.yaml")


def test_topics_are_those_that_a_service_creates(tmp_path: Path) -> None:
    """With Kafka's own tool; what a script fills in is not known."""
    path = tmp_path / "compose.yaml"
    path.write_text(
        "services:\n  broker: {image: 'apache/kafka:4.1.0'}\n  init:\n    image: apache/kafka:4.1.0\n"
        "    command: |\n"
        "      bash -c "
        '"kafka-topics --create --if-not-exists --topic orders --partitions 6 --replication-factor 2 \\\n'
        "      --config retention.ms=5 --config 'cleanup.policy=compact'\n"
        "      /opt/kafka/bin/kafka-topics.sh --bootstrap-server b:9092 --topic=payments --create; "
        'kafka-topics --list && kafka-topics --create --topic $$t"\n'
    )
    described = read_cluster(path)
    config = {"retention.ms": "5", "cleanup.policy": "compact"}
    assert described.topics == [
        {"name": "orders", "partitions": 6, "replication-factor": 2, "config": config},
        {"name": "payments"},
    ]


@pytest.mark.parametrize(
    ("command", "topics"),
    [
        ("kafka-topics --create --topic 'orders' --partitions '6'", [{"name": "orders", "partitions": 6}]),
        (
            "bash -c 'kafka-topics --create --topic \"orders\" --config \"cleanup.policy=compact\"'",
            [{"name": "orders", "config": {"cleanup.policy": "compact"}}],
        ),
        ("bash -c 'for t in a b; do kafka-topics --create --topic orders-$$t; done'", []),
        ("sh -c 'kafka-topics --create --topic orders-$t; kafka-topics --create --topic b'", [{"name": "b"}]),
        (["kafka-topics", "--create", "--topic=a", "--replication-factor", "3"],
         [{"name": "a", "replication-factor": 3}]),
        (["bash", "-c", "kafka-topics --create --topic ${NONE:-a} && echo it's done"], [{"name": "a"}]),
        ("kafka-topics --command-config '' --create --topic a", [{"name": "a"}]),
        (["bash", "-c", "(kafka-topics.sh --create --topic ${UNSET:?must be set})"], []),
    ],
)  # fmt: skip
def test_topics_in_a_command_as_a_shell_reads_it(
    command: str | list[str], topics: list[dict[str, Any]], tmp_path: Path
) -> None:
    """Variables of the script, or of a container that is not needed here, are no mistakes of the file."""
    image = {"image": "apache/kafka:4.1.0"}
    services = {"broker": image, "init": {**image, "command": command}}
    path = tmp_path / "compose.yaml"
    path.write_text(json.dumps({"services": services}))
    described = read_cluster(path)
    assert described.topics == topics
    assert described.replaced == ["service init: its command starts no broker"]


def test_template_is_no_file_of_a_cluster(tmp_path: Path) -> None:
    path = tmp_path / "values.yaml"
    path.write_text("metadata: {name: {{ .Release.Name }}}\n")
    with pytest.raises(UsageError, match=r"it is a template .*, fill it in first, as `helm template` does"):
        read_cluster(path)


def test_mistake_elsewhere_in_a_file_with_braces_is_the_mistake(tmp_path: Path) -> None:
    """A health check may have a format of docker's."""
    path = tmp_path / "compose.yaml"
    path.write_text(
        "services:\n  probe: {image: x, command: 'docker inspect -f {{.State}}'}\n  broker:\n\n"
        "    image: 'apache/kafka:4.1.0'\n    image: 'apache/kafka:4.1.0'\n"
    )
    with pytest.raises(UsageError) as caught:
        read_cluster(path)
    assert str(caught.value) == f"{path}:6:5: not valid YAML: image is given twice"
