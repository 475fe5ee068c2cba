"""Whole records of batches, as brokers store them."""

from __future__ import annotations

import pytest
from kafka.record.memory_records import MemoryRecordsBuilder

from fakes.segments import CODECS, batch, compressed
from kaput.cluster.records import LogRecord, read_records


def _one() -> bytes:
    builder = MemoryRecordsBuilder(2, 0, 1 << 20)
    headers = [("trace", b"7"), ("none", None)]
    builder.append(timestamp=1_700_000_000_123, key=b"k", value=b"v", headers=headers)
    builder.append(timestamp=1_700_000_000_124, key=None, value=None, headers=[])
    builder.close()
    return bytes(builder.buffer())


ONE = [
    LogRecord(0, 0, 1_700_000_000_123, b"k", b"v", [("trace", b"7"), ("none", None)]),
    LogRecord(1, 0, 1_700_000_000_124, None, None, []),
]


def test_every_part_of_a_record() -> None:
    """Keys, values and headers, or none; timestamps in ms; offsets and epochs as the broker gave them."""
    assert list(read_records(_one())) == ONE
    later = read_records(batch(40, [b"a", b"b"], epoch=3))
    assert [(record.offset, record.leader_epoch, record.value) for record in later] == [
        (40, 3, b"a"),
        (41, 3, b"b"),
    ]


@pytest.mark.parametrize("codec", CODECS)
def test_compressed_batches(codec: str) -> None:
    """Whatever a client has packed them with."""
    assert list(read_records(compressed(_one(), codec))) == ONE


def test_batches_one_after_the_other() -> None:
    """Markers of transactions are no records; what is torn at the end is left out."""
    data = batch(0, [b"a"]) + batch(1, [b"marker"], control=True) + batch(2, [b"b"]) + batch(3, [b"c"])[:-1]
    assert [record.offset for record in read_records(data)] == [0, 2]


def test_what_is_no_batch_is_told() -> None:
    """As where a file is damaged."""
    with pytest.raises(ValueError, match="no record batch"):
        list(read_records(bytes(range(100))))
