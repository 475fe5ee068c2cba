"""Idle members of type consumer are known by their epoch."""

from __future__ import annotations

import sys

from confluent_kafka import Consumer

from kaput.workload.librdkafka.client_setup import quiet_logger
from kaput.workload.librdkafka.member_process import GroupMembership, member_epoch


def test_member_epoch_is_read_from_librdkafka_group_metadata() -> None:
    """-1 before it has joined, as this version of librdkafka writes it; another form is no membership."""
    config = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "group.protocol": "consumer"}
    client = Consumer(config, logger=quiet_logger())
    metadata = client.consumer_group_metadata()
    assert isinstance(metadata, bytes) and metadata.startswith(b"CGMDv2:\xff\xff\xff\xffg\x00")
    assert member_epoch(metadata) == -1
    assert member_epoch(b"CGMDv2:" + (7).to_bytes(4, sys.byteorder) + b"g\x00m\x00") == 7
    assert member_epoch(b"CGMDv3:" + (7).to_bytes(4, sys.byteorder)) == -1 and member_epoch(None) == -1
    assert not GroupMembership(client).settled()
    client.close()
