"""Whole records of batches, as brokers store them."""

from __future__ import annotations

import pytest
from kafka.record.memory_records import MemoryRecords, MemoryRecordsBuilder

from fakes.segments import CODECS, batch, compressed
from kaput.cluster.record_batches import HEADER_BYTES, header
from kaput.cluster.records import LogRecord, batch_records, read_records


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


def test_record_has_key_value_headers_timestamp_and_epoch() -> None:
    """Keys, values and headers, or none; timestamps in ms; offsets and epochs as the broker gave them."""
    assert list(read_records(_one())) == ONE
    later = read_records(batch(40, [b"a", b"b"], epoch=3))
    assert [(record.offset, record.leader_epoch, record.value) for record in later] == [
        (40, 3, b"a"),
        (41, 3, b"b"),
    ]


def test_records_match_kafka_python() -> None:
    """Short and long parts, null ones and empty ones; numbers of several bytes."""
    headers = ([], [("a", b"1")], [("a", None), ("a", b"")], [("long", b"x" * 300)])
    builder = MemoryRecordsBuilder(2, 0, 1 << 24)
    for number in range(300):
        key = None if number % 5 == 1 else b"k" * (number % 3)
        value = None if number % 7 == 2 else b"v" * (number * 37 % 9000)
        at_ms = 1_700_000_000_000 + (number - 9) * 40_000
        builder.append(timestamp=at_ms, key=key, value=value, headers=headers[number % 4])
    builder.close()
    data = bytes(builder.buffer())
    expected = [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in MemoryRecords(data).next_batch()]
    found = [(r.offset, r.timestamp_ms, r.key, r.value, r.headers) for r in read_records(data)]
    assert found == expected and len(found) == 300


def test_log_append_time_applies_to_the_whole_batch() -> None:
    """The broker set it, in the header."""
    head, body = header(_one()), _one()[HEADER_BYTES:]
    assert head is not None
    found = batch_records(head._replace(attributes=0x08, max_timestamp=5), body)
    assert [record.timestamp_ms for record in found] == [5, 5]


def test_non_utf8_header_key_is_escaped() -> None:
    """The record is read all the same."""
    (first, _) = read_records(_one().replace(b"trace", b"tr\xffce"))
    assert first.headers == [("tr\\xffce", b"7"), ("none", None)]


@pytest.mark.parametrize("length", [1, 10, -1])
def test_truncated_batch_is_rejected(length: int) -> None:
    """Wherever it ends."""
    head = header(_one())
    assert head is not None
    with pytest.raises(ValueError, match="ends within a record"):
        list(batch_records(head, _one()[HEADER_BYTES:][:length]))


def test_batch_with_trailing_bytes_is_rejected() -> None:
    """As where its header is damaged."""
    head = header(_one())
    assert head is not None
    with pytest.raises(ValueError, match="does not end with its last record"):
        list(batch_records(head, _one()[HEADER_BYTES:] + b"\0"))


@pytest.mark.parametrize("codec", CODECS)
def test_compressed_batches_are_read(codec: str) -> None:
    """Whatever a client has packed them with."""
    assert list(read_records(compressed(_one(), codec))) == ONE


def test_control_batches_and_torn_tail_are_skipped() -> None:
    """Markers of transactions are no records; what is torn at the end is left out."""
    data = batch(0, [b"a"]) + batch(1, [b"marker"], control=True) + batch(2, [b"b"]) + batch(3, [b"c"])[:-1]
    assert [record.offset for record in read_records(data)] == [0, 2]


def test_invalid_batch_is_rejected() -> None:
    """As where a file is damaged."""
    with pytest.raises(ValueError, match="no record batch"):
        list(read_records(bytes(range(100))))
