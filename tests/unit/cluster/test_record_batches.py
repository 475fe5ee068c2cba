"""Record batches are read as kafka-python reads them, in every codec; what is no batch is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.memory_records import MemoryRecords, MemoryRecordsBuilder

from fakes.segments import CODECS, batch, compressed
from kaput.cluster.record_batches import (
    HEADER_BYTES,
    Batch,
    BrokenBatch,
    LogRecord,
    Records,
    StoredBatch,
    batches,
    decode,
    header,
    read_records,
)

VALUES: list[bytes | None] = [b"one", None, b"", bytes(300), b"five"]

contents = st.one_of(st.none(), st.binary(max_size=200))
messages = st.tuples(
    st.integers(1_600_000_000_000, 1_700_000_000_000),
    contents,
    contents,
    st.lists(st.tuples(st.text(max_size=5), contents), max_size=2),
)


def unpacked(data: bytes, **head: int) -> Batch:
    """The batch, with changes to its header."""
    parsed = header(data)
    assert parsed is not None
    return Batch(parsed._replace(**head), StoredBatch(parsed, data).unpacked().body)


def read(data: bytes) -> Records:
    head = header(data)
    assert head is not None and head.size == len(data)
    return decode([StoredBatch(head, data).unpacked()])


def offsets_and_values(found: Records) -> list[tuple[int, bytes | None]]:
    return list(zip(found.offset.tolist(), found.values(), strict=True))


@given(st.lists(messages, min_size=1, max_size=80))
def test_records_match_kafka_python(
    written: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]],
) -> None:
    """Keys, headers, empty and missing values, timestamps that go back: all that may stand in a record."""
    builder = MemoryRecordsBuilder(2, 0, 1 << 30)
    for timestamp, key, value, headers in written:
        builder.append(timestamp=timestamp, key=key, value=value, headers=headers)
    builder.close()
    data = bytes(builder.buffer())
    theirs = [(record.offset, record.value) for batch in MemoryRecords(data) for record in batch]
    ours = read(data)
    assert offsets_and_values(ours) == theirs
    assert ours.values() == [value for _, _, value, _ in written]


def test_batch_header_has_offsets_and_leader_epoch() -> None:
    """What the broker has put there."""
    head = header(batch(1000, VALUES, epoch=7))
    assert head is not None
    assert (head.base_offset, head.last_offset, head.leader_epoch) == (1000, 1004, 7)
    assert offsets_and_values(read(batch(1000, VALUES, epoch=7))) == list(
        zip(range(1000, 1005), VALUES, strict=True)
    )


@pytest.mark.parametrize(("codec", "xerial"), [*((codec, False) for codec in CODECS), ("snappy", True)])
def test_compressed_batches_are_read_and_damaged_ones_rejected(codec: str, xerial: bool) -> None:
    """Each codec, and the framing of snappy that Kafka's own clients use; broken ones are refused."""
    data = compressed(batch(5, VALUES), codec, xerial)
    assert data != batch(5, VALUES)
    assert offsets_and_values(read(data)) == list(zip(range(5, 10), VALUES, strict=True))
    head = header(data)
    assert head is not None
    with pytest.raises(ValueError):
        decode([StoredBatch(head, data[:HEADER_BYTES] + b"\xff" * (len(data) - HEADER_BYTES)).unpacked()])


def test_control_batches_hold_no_messages() -> None:
    """Markers of transactions have an offset, and nothing of ours."""
    assert offsets_and_values(read(batch(9, [b"marker"], control=True))) == []


def test_incomplete_header_is_none_and_invalid_header_is_rejected() -> None:
    """A head that is torn, or only set apart, may come; anything else can be no batch."""
    data = batch(0, VALUES)
    assert header(data[: HEADER_BYTES - 1]) is None
    assert header(bytes(HEADER_BYTES)) is None
    with pytest.raises(ValueError, match="no record batch begins here"):
        header(data, 1)


def test_damaged_record_byte_raises_only_value_error() -> None:
    """Any byte of the records turned into a huge one: refused, or other values, never another exception."""
    for at in range(HEADER_BYTES, len(batch(0, VALUES))):
        data = bytearray(batch(0, VALUES))
        data[at] = 0xFF
        try:
            assert len(read(bytes(data)).values()) == len(VALUES), at
        except ValueError as error:
            assert "batch at offset 0" in str(error), at


def test_missing_or_extra_records_are_rejected() -> None:
    """A body that ends within its records, or behind them."""
    data = batch(0, VALUES)
    for cut in (1, 10, -1):
        with pytest.raises(ValueError, match="ends within a record"):
            decode([unpacked(data)._replace(body=data[HEADER_BYTES:][:cut])])
    for wrong in (unpacked(data, messages=4), unpacked(data)._replace(body=data[HEADER_BYTES:] + b"\0")):
        with pytest.raises(ValueError, match="does not end with its last record"):
            decode([wrong])


def test_the_first_broken_batch_is_named() -> None:
    """Among whole ones, whichever of its bytes is damaged: those before it can be decoded."""
    whole, head = unpacked(batch(0, VALUES)), unpacked(batch(5, VALUES)).head
    for at in range(len(batch(0, VALUES)) - HEADER_BYTES):
        body = bytearray(batch(5, VALUES)[HEADER_BYTES:])
        body[at] = 0xFF
        try:
            assert len(decode([whole, Batch(head, bytes(body)), whole]).values()) == 3 * len(VALUES), at
        except BrokenBatch as broken:
            assert broken.index == 1 and "batch at offset 5" in str(broken), at


def test_several_batches_are_decoded_at_once() -> None:
    """With the epoch of each, and without markers between them."""
    marker = batch(3, [b"marker"], control=True)
    data = batch(0, [b"a", b"b"], epoch=1) + marker + batch(4, [b"c"], epoch=2)
    found = decode(list(batches(data)))
    assert [(r.offset, r.leader_epoch, r.value) for r in found.whole()] == [
        (0, 1, b"a"),
        (1, 1, b"b"),
        (4, 2, b"c"),
    ]
    assert found.by_record([7, 8, 9]).tolist() == [7, 7, 9]
    assert [one.commits for one in batches(data)] == [None, None, None]
    assert decode([]).values() == list(decode([]).whole()) == []


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


def test_whole_records_match_kafka_python() -> None:
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
    found = decode([unpacked(_one(), attributes=0x08, max_timestamp=5)])
    assert found.timestamp.tolist() == [5, 5]


def test_non_utf8_header_key_is_escaped() -> None:
    """The record is read all the same."""
    (first, _) = read_records(_one().replace(b"trace", b"tr\xffce"))
    assert first.headers == [("tr\\xffce", b"7"), ("none", None)]


@pytest.mark.parametrize("codec", CODECS)
def test_whole_records_of_compressed_batches_are_read(codec: str) -> None:
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
