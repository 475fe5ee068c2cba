"""Batches as columns, against kafka-python's own reader."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from kafka.record.memory_records import MemoryRecords

from kaput.cluster.protocol import DefaultRecordBatchBuilder
from kaput.cluster.record_batches import Aborts, Batch, batches
from kaput.compare.reading import (
    ABORTED,
    LOG_APPEND_TIME,
    NULL_KEY,
    TOMBSTONE,
    TRANSACTIONAL,
    PartitionFacts,
    _count,
    columns,
)

_HEADERS: list[list[tuple[str, bytes | None]]] = [
    [],
    [("a", b"1")],
    [("a", None), ("a", b"")],
    [("long", b"x" * 300)],
]
_APPEND_TIME, _MARKER = 0x08, 0x30  # of the attributes


def batch(count: int, codec: int = 0, transactional: bool = False) -> bytes:
    """Records of all kinds, with long and short parts."""
    builder = DefaultRecordBatchBuilder(2, codec, transactional, 7, 0, 0, 1 << 24)
    for number in range(count):
        key = None if number % 5 == 1 else b"k" * (number % 3)
        value = None if number % 7 == 2 else b"v" * (number * 37 % 9000)
        builder.append(number, 1_700_000_000_000 + number * 40_000, key, value, _HEADERS[number % 4])
    return bytes(builder.build())


def changed(one: Batch, **head: int) -> Batch:
    """The same batch with another header."""
    return one._replace(head=one.head._replace(**head))


def control(pid: int, offset: int, commits: bool) -> Batch:
    """The marker of a transaction."""
    builder = DefaultRecordBatchBuilder(2, 0, True, pid, 0, 0, 1 << 10)
    builder.append(0, 1_700_000_000_000, struct.pack(">hh", 0, commits), b"", [])
    (made,) = batches(bytes(builder.build()))
    return changed(made, base_offset=offset, last_offset=offset, attributes=_MARKER)


@pytest.mark.parametrize("codec", [0, 1])
def test_columns_are_what_kafka_python_reads(codec: int) -> None:
    """Offsets, timestamps, null keys and tombstones; several batches, the last one torn."""
    data = batch(300, codec) + batch(1, codec)
    found = columns([(one, False) for one in batches(data + batch(9)[:-1])])
    expected = [record for each in _parsed(data) for record in each]
    assert found["offset"].to_pylist() == [record.offset for record in expected]
    assert found["timestamp"].to_pylist() == [record.timestamp for record in expected]
    flags = found["flags"].to_numpy()
    assert (flags & NULL_KEY > 0).tolist() == [record.key is None for record in expected]
    assert (flags & TOMBSTONE > 0).tolist() == [record.value is None for record in expected]
    for name in ("key", "value"):
        hashes = dict(zip([getattr(r, name) for r in expected], found[name].to_pylist(), strict=True))
        assert len(set(hashes.values())) == len(hashes)
        assert found[name].to_pylist() == [hashes[getattr(record, name)] for record in expected]
    by_headers = {
        str(record.headers): value
        for record, value in zip(expected, found["headers"].to_pylist(), strict=True)
    }
    assert len(set(by_headers.values())) == len(by_headers) == 4


def _parsed(data: bytes) -> list[list[Any]]:
    reader, found = MemoryRecords(data), []
    while (each := reader.next_batch()) is not None:
        found.append(list(each))
    return found


def test_a_batch_with_append_time_has_one_timestamp() -> None:
    (one,) = batches(batch(3))
    found = columns([(changed(one, attributes=_APPEND_TIME, max_timestamp=5), True)])
    assert found["timestamp"].to_pylist() == [5, 5, 5]
    assert set(found["flags"].to_pylist()) >= {LOG_APPEND_TIME | ABORTED}


def test_a_broken_batch_is_refused() -> None:
    """Whether its header or its records."""
    with pytest.raises(ValueError, match="no record batch begins here"):
        list(batches(bytes(100)))
    (one,) = batches(batch(5))
    with pytest.raises(ValueError, match="ends within a record"):
        columns([(one._replace(body=one.body[:-1]), False)])


def test_records_of_aborted_transactions_are_flagged() -> None:
    """From the first offset of the transaction to its marker, of that producer alone."""
    (one,) = batches(batch(2, transactional=True))

    def at(offset: int, pid: int) -> Batch:
        return changed(one, base_offset=offset, last_offset=offset + 1, producer_id=pid)

    aborts = Aborts()
    aborts.add_aborted([(10, 7)])
    aborts.add_aborted([(10, 7), (30, 8)])
    plain = changed(at(16, 7), attributes=0)
    log = [
        at(0, 7),
        at(10, 7),
        at(12, 8),
        plain,
        control(7, 20, False),
        at(21, 7),
        at(30, 8),
        control(8, 32, False),
    ]
    assert [aborts.is_aborted(each) for each in log] == [False, True, False, False, False, False, True, False]


def test_partition_facts_count_records_markers_and_gaps() -> None:
    """Records by fate and codec, markers, and offsets that nothing is at."""
    (one,) = batches(batch(10, codec=1, transactional=True))
    log = [
        (changed(one, base_offset=5, last_offset=14, leader_epoch=3), False),
        (changed(one, base_offset=15, last_offset=29), True),
        (control(7, 30, True), False),
        (control(7, 31, False), False),
    ]
    facts = PartitionFacts(0, 40, gap_offsets=40)
    _count(facts, log, columns(log)["flags"].to_numpy())
    assert (facts.records, facts.aborted, facts.transactional) == (10, 10, 10)
    assert facts.codecs == {"gzip": 20} and facts.epochs[3] == 10
    assert (facts.markers, facts.gap_offsets) == (2, 5 + 5 + 8)
    assert TRANSACTIONAL & columns(log)["flags"][0].as_py()
