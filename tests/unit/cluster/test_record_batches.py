"""Record batches are read as kafka-python reads them, in every codec; what is no batch is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.memory_records import MemoryRecords, MemoryRecordsBuilder

from fakes.segments import CODECS, batch, compressed
from kaput.cluster.record_batches import HEADER_BYTES, Records, header, records

VALUES: list[bytes | None] = [b"one", None, b"", bytes(300), b"five"]

contents = st.one_of(st.none(), st.binary(max_size=200))
messages = st.tuples(
    st.integers(1_600_000_000_000, 1_700_000_000_000),
    contents,
    contents,
    st.lists(st.tuples(st.text(max_size=5), contents), max_size=2),
)


def read(data: bytes) -> Records:
    head = header(data)
    assert head is not None and head.size == len(data)
    return records(head, data)


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
    assert list(zip(ours.offsets, ours.values, strict=True)) == theirs
    assert ours.values == [value for _, _, value, _ in written]


def test_batch_header_has_offsets_and_leader_epoch() -> None:
    """What the broker has put there."""
    head = header(batch(1000, VALUES, epoch=7))
    assert head is not None
    assert (head.base_offset, head.last_offset, head.leader_epoch) == (1000, 1004, 7)
    assert read(batch(1000, VALUES, epoch=7)) == Records([1000, 1001, 1002, 1003, 1004], VALUES)


@pytest.mark.parametrize(("codec", "xerial"), [*((codec, False) for codec in CODECS), ("snappy", True)])
def test_compressed_batches_are_read_and_damaged_ones_rejected(codec: str, xerial: bool) -> None:
    """Each codec, and the framing of snappy that Kafka's own clients use; broken ones are refused."""
    data = compressed(batch(5, VALUES), codec, xerial)
    assert data != batch(5, VALUES)
    assert read(data) == Records([5, 6, 7, 8, 9], VALUES)
    head = header(data)
    assert head is not None
    with pytest.raises(ValueError):
        records(head, data[:HEADER_BYTES] + b"\xff" * (len(data) - HEADER_BYTES))


def test_control_batches_hold_no_messages() -> None:
    """Markers of transactions have an offset, and nothing of ours."""
    assert read(batch(9, [b"marker"], control=True)) == Records([], [])


def test_incomplete_header_is_none_and_invalid_header_is_rejected() -> None:
    """A head that is torn, or only set apart, may come; anything else can be no batch."""
    data = batch(0, VALUES)
    assert header(data[: HEADER_BYTES - 1]) is None
    assert header(bytes(HEADER_BYTES)) is None
    with pytest.raises(ValueError, match="no record batch begins here"):
        header(data, 1)


@pytest.mark.parametrize("at", range(HEADER_BYTES, len(batch(0, VALUES))))
def test_damaged_record_byte_raises_only_value_error(at: int) -> None:
    """Any byte of the records turned into a huge one: refused, or other values, never another exception."""
    data = bytearray(batch(0, VALUES))
    data[at] = 0xFF
    head = header(bytes(data))
    assert head is not None
    try:
        assert len(records(head, bytes(data)).values) == len(VALUES)
    except ValueError as error:
        assert "batch at offset 0" in str(error)


def test_missing_or_extra_records_are_rejected() -> None:
    """A body that ends within its records."""
    data = batch(0, VALUES)
    head = header(data)
    assert head is not None
    with pytest.raises(ValueError, match="ends within a record"):
        records(head, data[:-1])
    with pytest.raises(ValueError, match="does not end with its last record"):
        records(head._replace(messages=4), data)
