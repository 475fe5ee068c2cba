"""Mirrors: the settings of MirrorMaker, the records that it writes about itself, and how far behind it is."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from kaput.cluster.access import Access
from kaput.cluster.mirrors.node import MirroredCluster, MirrorNode, mirror_layout, mirror_properties
from kaput.cluster.mirrors.records import (
    Checkpoint,
    OffsetSync,
    checkpoints_topic,
    offset_syncs_topic,
    parse_checkpoint,
    parse_offset_sync,
)
from kaput.cluster.network.loopback import Loopback
from kaput.core import TopicPartition
from kaput.errors import LabError
from kaput.java_properties import properties_text
from kaput.runner.mirrors.watching import mirror_lag
from kaput.scenario.mirrors import Mirror

ENDS = (MirroredCluster("a:1,a:2,a:3", 3), MirroredCluster("b:1", 1))


def mirror(**more: Any) -> Mirror:
    return Mirror.model_validate({"from": "dc1", "to": "dc2", "topics": ["orders"], **more})


def settings(**more: Any) -> dict[str, str]:
    return mirror_properties(mirror(**more), *ENDS, "http://127.0.0.1:8083")


def test_only_one_direction_is_mirrored() -> None:
    """Topics, factors that the target can have, and nothing that would connect the other way."""
    found = settings()
    assert found["clusters"] == "dc1,dc2" and found["dc1.bootstrap.servers"] == "a:1,a:2,a:3"
    assert found["dc1->dc2.enabled"] == "true" and found["dc1->dc2.topics"] == "orders"
    assert found["replication.factor"] == found["offset.storage.replication.factor"] == "1"
    assert found["offset-syncs.topic.replication.factor"] == "3"  # it is in the source
    assert found["emit.heartbeats.enabled"] == "false"
    assert found["replication.policy.class"].endswith("IdentityReplicationPolicy")


def test_mirror_settings_reference_secrets_by_file(tmp_path: Path) -> None:
    """MirrorMaker reads them there; its own settings, which a run folder keeps, only name them."""
    path = tmp_path / "client.properties"
    path.write_text('security.protocol=SASL_SSL\nsasl.jaas.config=x required password="hush";\n')
    secured = MirroredCluster("b:1", 1, Access.read(path))
    found = mirror_properties(mirror(), ENDS[0], secured, "http://127.0.0.1:8083")
    assert found["dc2.sasl.jaas.config"] == f"${{file:{path}:sasl.jaas.config}}"
    assert found["dc2.security.protocol"] == f"${{file:{path}:security.protocol}}"
    assert found["config.providers"] == "file" and "dc1.security.protocol" not in found
    assert "hush" not in properties_text(found)


def test_group_offsets_are_synced_only_for_named_groups() -> None:
    """Without groups MirrorMaker would translate all of them, and commit none."""
    assert settings()["dc1->dc2.emit.checkpoints.enabled"] == "false"
    found = settings(groups=["billing"], **{"offset-sync": "10s", "checkpoints": "2s"})
    assert found["dc1->dc2.groups"] == "billing"
    assert found["dc1->dc2.sync.group.offsets.enabled"] == "true"
    assert found["dc1->dc2.sync.group.offsets.interval.seconds"] == "10"
    assert found["dc1->dc2.emit.checkpoints.interval.seconds"] == "2"


def test_heartbeats_are_emitted_by_one_process_per_direction() -> None:
    """For heartbeats MirrorMaker works in both, unless the other one is a process of its own: that emits them
    then.
    """
    assert settings(heartbeats=True)["emit.heartbeats.enabled"] == "true"
    there, back = mirror(heartbeats=True), mirror(**{"from": "dc2", "to": "dc1"})
    found = mirror_properties(there, *ENDS, "http://127.0.0.1:8083", back)
    assert found["emit.heartbeats.enabled"] == found["dc1->dc2.emit.heartbeats.enabled"] == "false"
    found = mirror_properties(back, ENDS[1], ENDS[0], "http://127.0.0.1:8084", there)
    assert found["emit.heartbeats.enabled"] == "false"
    assert found["dc2->dc1.emit.heartbeats.enabled"] == "true"


def test_topic_names_are_escaped_as_patterns() -> None:
    """A dot of a topic's name is that dot."""
    assert settings(topics=["a.b", "c"])["dc1->dc2.topics"] == "a[.]b,c"


def test_exactly_once_enables_the_rest_listener() -> None:
    """And is switched on at the target's workers."""
    found = settings(**{"exactly-once": True, "policy": "default"})
    assert found["dc2.exactly.once.source.support"] == "enabled"
    assert found["listeners"] == "http://127.0.0.1:8083"
    assert found["replication.policy.class"].endswith("DefaultReplicationPolicy")
    assert "listeners" not in settings()


def test_scenario_settings_get_the_direction_or_cluster_prefix() -> None:
    found = settings(config={"offset.lag.max": 0, "dc1.consumer.max.poll.records": 10})
    assert found["dc1->dc2.offset.lag.max"] == found["dc2.offset.lag.max"] == "0"
    assert found["dc1.consumer.max.poll.records"] == "10"
    assert "dc1->dc2.dc1.consumer.max.poll.records" not in found


def text(word: str) -> bytes:
    """As Kafka's protocol has it."""
    return struct.pack(">h", len(word.encode())) + word.encode()


def test_checkpoint_record_is_parsed() -> None:
    """Group, place in the target, and both positions."""
    key = text("billing") + text("orders") + struct.pack(">i", 2)
    value = struct.pack(">hqq", 0, 120, 99) + text("")
    expected = Checkpoint("billing", TopicPartition("orders", 2), 120, 99)
    assert parse_checkpoint(key, value) == expected
    with pytest.raises(LabError, match="version 1; kaput reads version 0"):
        parse_checkpoint(key, struct.pack(">hqq", 1, 120, 99))
    assert parse_checkpoint(key[:-1], value) is None and parse_checkpoint(b"", b"") is None


def test_offset_sync_record_is_parsed() -> None:
    """The offset of a record, and that of its copy."""
    key = text("orders") + struct.pack(">i", 0)
    assert parse_offset_sync(key, struct.pack(">qq", 7, 5)) == OffsetSync(TopicPartition("orders", 0), 7, 5)
    assert parse_offset_sync(key, b"\0") is None


def test_names_of_checkpoint_and_offset_sync_topics() -> None:
    """Checkpoints in the target, offset syncs in the source."""
    assert checkpoints_topic(mirror().from_) == "dc1.checkpoints.internal"
    assert offset_syncs_topic(mirror().to) == "mm2-offset-syncs.dc2.internal"


@pytest.mark.parametrize(
    ("source_end", "target_end", "sync", "lag"),
    [
        (100, 0, None, 100),  # nothing has come
        (100, 100, (0, 0), 0),
        (100, 40, (0, 0), 60),
        (100, 140, (90, 130), 0),  # copied twice before the last sync
        (100, 60, (99, 55), 0),  # more has come since than there was when the source was asked
        (100, 50, (80, 60), 20),  # the target was asked before the sync was written
    ],
)
def test_mirror_lag_is_computed_from_the_last_offset_sync(
    source_end: int, target_end: int, sync: tuple[int, int] | None, lag: int
) -> None:
    """What has come since the record of the sync, of what the source has had since."""
    known = None if sync is None else OffsetSync(TopicPartition("orders", 0), *sync)
    assert mirror_lag(source_end, target_end, known) == lag


def test_mirror_is_ready_when_its_log_shows_replication(tmp_path: Path) -> None:
    node = MirrorNode(
        None,  # type: ignore[arg-type]
        mirror_layout(mirror(), 9001, Loopback(), tmp_path),
        [],
        mirror(),
        lambda *_: None,
    )
    assert (node.title, node.role) == ("mirror dc1->dc2", "mirror")
    node.layout.folder.mkdir(parents=True)
    node.log.write_text("INFO task-thread-0 replicating 2 topic-partitions dc2->dc1: [a-0, a-1].\n")
    assert not node.mirrors()
    node.log.write_text("INFO task-thread-0 replicating 2 topic-partitions dc1->dc2: [a-0, a-1].\n")
    assert node.mirrors()
