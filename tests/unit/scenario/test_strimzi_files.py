"""Strimzi's resources as people publish them: which belong to the cluster, and which are listed."""

from __future__ import annotations

from pathlib import Path

import pytest

from kaput.errors import UsageError
from kaput.scenario.cluster_files.reading import read_cluster

_POOL = "kind: KafkaNodePool\napiVersion: kafka.strimzi.io/v1\n"
_KAFKA = "kind: Kafka\napiVersion: kafka.strimzi.io/v1\n"
_TWO_CLUSTERS = f"""
{_POOL}
metadata: {{name: dual-role, labels: {{strimzi.io/cluster: ours}}}}
spec: {{replicas: 3, roles: [controller, broker], storage: {{type: jbod, volumes: []}}}}
---
{_KAFKA}
metadata: {{name: ours, annotations: {{strimzi.io/node-pools: enabled, strimzi.io/kraft: enabled}}}}
spec:
  kafka:
    version: 4.1.0
    metadataVersion: 4.1-IV1
    config: {{log.cleaner.min.cleanable.ratio: 0.5, group.consumer.assignors: com.acme.Mine}}
    quotas: {{type: strimzi, producerByteRate: 1000000}}
  entityOperator: {{topicOperator: {{}}}}
---
{_KAFKA}
metadata: {{name: other}}
spec: {{kafka: {{}}}}
---
{_POOL}
metadata: {{name: others, labels: {{strimzi.io/cluster: other}}}}
spec: {{replicas: 9, roles: [broker]}}
---
{{kind: KafkaUser, apiVersion: kafka.strimzi.io/v1, metadata: {{name: me}}}}
---
{{kind: ConfigMap, apiVersion: v1, metadata: {{name: metrics}}}}
"""
_ZOOKEEPERS_POOLS = f"""
{_POOL}
metadata: {{name: a}}
spec: {{replicas: 3, roles: [broker]}}
---
{_KAFKA}
metadata: {{name: ours, annotations: {{strimzi.io/node-pools: enabled}}}}
spec: {{kafka: {{version: 3.7.0, replicas: 3}}, zookeeper: {{replicas: 3}}}}
"""


def test_what_belongs_to_the_first_cluster_is_taken_and_the_rest_listed(tmp_path: Path) -> None:
    """By their label: a second cluster's pools are not counted."""
    (tmp_path / "kafka.yaml").write_text(_TWO_CLUSTERS)
    described = read_cluster(tmp_path / "kafka.yaml")
    assert described.cluster == {
        "kafka": "4.1.0",
        "brokers": 3,
        "config": {"log.cleaner.min.cleanable.ratio": 0.5},
    }
    file = tmp_path / "kafka.yaml"
    assert described.replaced == [
        "spec.kafka.metadataVersion: kaput sets its own",
        "spec.kafka.quotas: kaput sets its own",
        "spec.entityOperator: left out",
        "storage of the KafkaNodePools: kaput sets its own",
        "group.consumer.assignors: com.acme.Mine is not here",
        f"Kafka other ({file}:20): left out",
        f"KafkaNodePool others ({file}:26): left out",
        f"KafkaUser me ({file}:32): left out",
        f"ConfigMap metrics ({file}:34): left out",
    ]


@pytest.mark.parametrize(
    ("annotations", "roles", "mode"),
    [
        ("", "[broker]", "zookeeper"),
        ("strimzi.io/kraft: migration", "[broker]", "zookeeper"),
        ("strimzi.io/kraft: enabled", "[broker]", "kraft"),
        ("", "[controller, broker]", "kraft"),
    ],
)
def test_pools_have_zookeeper_unless_they_are_krafts(
    annotations: str, roles: str, mode: str, tmp_path: Path
) -> None:
    """Early versions of Strimzi wanted a section on ZooKeeper also with KRaft."""
    text = _ZOOKEEPERS_POOLS.replace("strimzi.io/node-pools: enabled", annotations)
    (tmp_path / "kafka.yaml").write_text(text.replace("[broker]", roles))
    cluster = read_cluster(tmp_path / "kafka.yaml").cluster
    assert (cluster.get("mode", "kraft"), cluster.get("zookeepers")) == (
        (mode, 3) if mode == "zookeeper" else (mode, None)
    )


def test_voters_that_the_run_cannot_have_are_listed(tmp_path: Path) -> None:
    """One broker of four votes; or one broker and a dedicated controller."""
    voter = f"---\n{_POOL}\nmetadata: {{name: b}}\nspec: {{replicas: 1, roles: [controller, broker]}}\n"
    controller = voter.replace("[controller, broker]", "[controller]")
    (tmp_path / "kafka.yaml").write_text(_ZOOKEEPERS_POOLS + voter)
    described = read_cluster(tmp_path / "kafka.yaml")
    assert described.cluster["brokers"] == 4
    assert described.replaced == ["voters: 1 of the brokers; in the run, 3"]
    (tmp_path / "kafka.yaml").write_text(_ZOOKEEPERS_POOLS + voter + controller)
    described = read_cluster(tmp_path / "kafka.yaml")
    assert (described.cluster["brokers"], described.cluster["controllers"]) == (4, 2)
    assert described.replaced == ["voters: 1 of 2 are brokers; in the run, none is"]


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        (f"{_KAFKA}spec:\n  kafka:\n    replicas: three", r"5: spec\.kafka\.replicas=three is not a whole"),
        (
            f"{_KAFKA}spec:\n  kafka:\n    config: {{log.retention.ms: a week}}",
            r"5: log\.retention\.ms=a week",
        ),
        (f"{_KAFKA}spec: [kafka]", "3: spec is not a mapping"),
        (
            f"{_KAFKA}---\n{_POOL}spec:\n  replicas: 3",
            "6: roles of a KafkaNodePool: broker, controller, or both",
        ),
        (f"{_KAFKA}---\n{_POOL}spec:\n  roles: [broker]", r"6: a KafkaNodePool without spec\.replicas"),
        (
            f"{_KAFKA}---\n{_POOL}spec: {{roles: [controller], replicas: 3}}",
            "6: no KafkaNodePool has brokers",
        ),
        (
            f"{_KAFKA}---\n{_POOL.replace('NodePool', 'Topic')}spec: {{}}",
            "4: a KafkaTopic without metadata.name",
        ),
        (
            f"{_KAFKA}---\n{_POOL.replace('NodePool', 'Topic')}metadata: {{name: a}}\nspec:\n  partitions: x",
            r"8: spec\.partitions=x is not a whole number",
        ),
    ],
)
def test_mistakes_are_named_with_file_and_line(text: str, mistake: str, tmp_path: Path) -> None:
    (tmp_path / "kafka.yaml").write_text(text)
    with pytest.raises(UsageError, match=rf"kafka\.yaml:{mistake}"):
        read_cluster(tmp_path / "kafka.yaml")
