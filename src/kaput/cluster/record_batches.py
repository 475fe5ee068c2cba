"""Kafka's record batches (format 2, the only one since Kafka 0.11): the one decoder of kaput.

`decode` turns many batches into columns at once: a loop finds where records begin, and numpy reads their
fields. Values, whole records and hashes of their parts are cut from the same bytes, only when they are asked
for. Tests compare it with kafka-python's reader, which is several times slower, needs a package for each
codec, and refuses a record whose header has a name that is not UTF-8 (here the name is escaped).

Not here: finding the bytes in files (segments.py) or at brokers (compare/reading.py).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np  # here only where records are decoded: kaput-lab has no numpy and no pyarrow

# base offset i64 | length of the rest i32 | leader epoch i32 | magic i8 | crc u32 | attributes i16 |
# last offset delta i32 | first and max timestamp i64 | producer id i64, its epoch i16, base sequence i32 |
# records i32
_HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES = _HEADER.size
_BEFORE_LENGTH_BYTES = 12  # the base offset and the length itself
_MAGIC, _MAGIC_AT = 2, 16
_CRC_AT, _CRC_END = 17, 21  # it covers what follows
_LATER_MAGIC_MAX = 9  # higher numbers are damage rather than a format
_CODEC, _APPEND_TIME, _TRANSACTIONAL, _CONTROL = 0x07, 0x08, 0x10, 0x20  # of the attributes
_BATCH_BYTES_MAX = 1 << 28
_ABORT, _COMMIT = 0, 1  # transaction markers
_STREAMS, _SNAPPY = {1: "gzip", 3: "lz4", 4: "zstd"}, 2  # codecs
# Kafka's own clients cut snappy into blocks (the framing of xerial's library); librdkafka does not.
_XERIAL, _XERIAL_HEADER = b"\x82SNAPPY\x00", 16


class Header(NamedTuple):
    """The header of a batch; `size`: of the whole batch, in bytes; timestamps in ms since the epoch."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    size: int
    attributes: int
    first_timestamp: int
    max_timestamp: int
    producer_id: int
    messages: int

    @property
    def codec(self) -> int:
        return self.attributes & _CODEC

    @property
    def append_time(self) -> bool:
        """Whether the broker set the timestamps: each is `max_timestamp`."""
        return bool(self.attributes & _APPEND_TIME)

    @property
    def transactional(self) -> bool:
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def control(self) -> bool:
        """Whether it contains transaction markers instead of messages."""
        return bool(self.attributes & _CONTROL)


class Batch(NamedTuple):
    """The header of a batch, and its records, decompressed."""

    head: Header
    body: bytes

    @property
    def commits(self) -> bool | None:
        """For a transaction marker: True for a commit, False for an abort. None for any other batch."""
        if not self.head.control or not self.head.messages:
            return None
        _, at = _varint(self.body, 0)
        _, at = _varint(self.body, at + 1)  # attributes, timestamp
        _, at = _varint(self.body, at)
        length, at = _varint(self.body, at)
        if length < 4:
            return None
        kind = int.from_bytes(self.body[at + 2 : at + 4], "big")  # the key: version i16 | type i16
        return {_ABORT: False, _COMMIT: True}.get(kind)


class StoredBatch(NamedTuple):
    """A complete batch as it is stored, from its header on."""

    head: Header
    data: bytes

    @property
    def intact(self) -> bool:
        from kaput.cluster.protocol import calc_crc32c  # here, since few need it

        crc, covered = self.data[_CRC_AT:_CRC_END], self.data[_CRC_END : self.head.size]
        return bool(int.from_bytes(crc, "big") == calc_crc32c(covered))

    def unpacked(self) -> Batch:
        """The batch with its records decompressed. Raises ValueError."""
        return Batch(self.head, decompress(self.head.codec, self.data[HEADER_BYTES : self.head.size]))


@dataclass
class Aborts:
    """The aborted transactions of a partition: tracks whose records are aborted at the reader's position."""

    _open_producers: set[int] = field(default_factory=set)
    _upcoming: list[tuple[int, int]] = field(default_factory=list)

    def add_aborted(self, aborted: Sequence[tuple[int, int]]) -> None:
        """Adds a fetch response's aborted transactions, (first offset, producer id); may repeat."""
        self._upcoming = sorted(set(self._upcoming) | set(aborted))

    def is_aborted(self, batch: Batch) -> bool:
        """Whether the batch is aborted. Must be called for all batches in order."""
        head = batch.head
        while self._upcoming and self._upcoming[0][0] <= head.last_offset:
            self._open_producers.add(self._upcoming.pop(0)[1])
        if head.control:
            if batch.commits is False:
                self._open_producers.discard(head.producer_id)
            return False
        return head.transactional and head.producer_id in self._open_producers


class LogRecord(NamedTuple):
    """One record as a replica has it; timestamp in ms since the epoch."""

    offset: int
    leader_epoch: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class BrokenBatch(ValueError):
    """A batch is broken; `index`: its number among the batches to decode."""

    def __init__(self, head: Header, problem: str, index: int) -> None:
        super().__init__(f"the batch at offset {head.base_offset} {problem}")
        self.index = index


_WITHIN = "ends within a record"


@dataclass(frozen=True)
class Records:
    """The messages of batches, in the log's order: one entry for each message in every array."""

    offset: np.ndarray
    timestamp: np.ndarray  # ms since the epoch
    leader_epoch: np.ndarray
    null_key: np.ndarray
    null_value: np.ndarray
    bounds: np.ndarray  # rows: where in `data` the key and the value begin and end, and the record ends
    data: bytes
    counts: np.ndarray  # by batch: its messages, 0 for transaction markers

    def by_record(self, values: Sequence[int]) -> np.ndarray:
        """A value for each batch, repeated for each of its messages."""
        import numpy as np

        return np.repeat(np.array(values, dtype=np.int64), self.counts)

    def values(self) -> list[bytes | None]:
        return self._cut(2, self.null_value)

    def whole(self) -> Iterator[LogRecord]:
        """Each message as a record. Raises ValueError for broken headers."""
        numbers = self.offset.tolist(), self.leader_epoch.tolist(), self.timestamp.tolist()
        headers_from, headers_to = self.bounds[:, 3].tolist(), self.bounds[:, 4].tolist()
        parts = self._cut(0, self.null_key), self.values(), headers_from, headers_to
        for offset, epoch, time_ms, key, value, at, end in zip(*numbers, *parts, strict=True):
            try:
                headers = _headers(self.data, at, end)
            except IndexError:
                raise ValueError(f"the batch of offset {offset} ends within a record") from None
            yield LogRecord(offset, epoch, time_ms, key, value, headers)

    def _cut(self, begin: int, null: np.ndarray) -> list[bytes | None]:
        bounds, data = self.bounds, self.data
        spans = zip(bounds[:, begin].tolist(), bounds[:, begin + 1].tolist(), null.tolist(), strict=True)
        return [None if is_null else data[at:end] for at, end, is_null in spans]


def header(data: bytes, at: int = 0) -> Header | None:
    """The header of the batch at `at`; None if incomplete. Raises ValueError if none can begin there."""
    if len(data) - at < HEADER_BYTES:
        return None
    base, length, epoch, magic, _, attributes, last, first_ms, max_ms, producer, _, _, count = (
        _HEADER.unpack_from(data, at)
    )
    if magic == 0 and length == 0:
        return None  # preallocated space (log.preallocate), not yet written
    size = length + _BEFORE_LENGTH_BYTES
    if magic != _MAGIC or not HEADER_BYTES <= size <= _BATCH_BYTES_MAX or last < 0 or base < 0:
        raise ValueError(f"no record batch begins here (magic {magic}, {length} bytes)")
    return Header(base, base + last, epoch, size, attributes, first_ms, max_ms, producer, count)


def later_magic(data: bytes) -> int | None:
    """The format of the batch at the beginning of `data`, if it is later than the one that is read here."""
    magic = data[_MAGIC_AT] if len(data) > _MAGIC_AT else _MAGIC
    return magic if _MAGIC < magic <= _LATER_MAGIC_MAX else None


def batches(data: bytes) -> Iterator[Batch]:
    """The complete batches at the start of `data`. Raises ValueError where none can begin."""
    at = 0
    while len(data) - at >= HEADER_BYTES:
        head = header(data, at)
        if head is None:
            raise ValueError("no record batch begins here (zeros)")
        if at + head.size > len(data):
            return
        yield StoredBatch(head, data[at : at + head.size]).unpacked()
        at += head.size


def read_records(data: bytes) -> Iterator[LogRecord]:
    """The records of consecutive batches, without transaction markers. Raises ValueError as `batches`."""
    for batch in batches(data):
        yield from decode([batch]).whole()


def first_record(data: bytes, offset: int, aborts: Aborts) -> tuple[LogRecord | None, int]:
    """The first record at or after `offset` in consecutive batches, or None and the offset to continue at.
    Transaction markers and aborted records are skipped, and compaction may have removed the record at
    `offset` itself. Raises ValueError as `batches`.
    """
    for batch in batches(data):
        if not aborts.is_aborted(batch) and batch.head.last_offset >= offset:
            for record in decode([batch]).whole():
                if record.offset >= offset:
                    return record, offset
        offset = max(offset, batch.head.last_offset + 1)
    return None, offset


def decode(encoded: Sequence[Batch]) -> Records:
    """The messages of batches in order, without transaction markers. Raises BrokenBatch."""
    import numpy as np

    # By batch, in the order of Header's fields.
    heads = np.array([batch.head for batch in encoded], dtype=np.int64).reshape(-1, len(Header._fields))
    base_offset, _, epoch, _, attributes, first_timestamp, max_timestamp, _, messages = heads.T
    counts = np.where(attributes & _CONTROL, 0, messages)
    data = b"".join([b"" if batch.head.control else batch.body for batch in encoded])
    starts, ends = _positions(encoded, data)
    fields = _BatchFields(np.frombuffer(data, dtype=np.uint8), starts)
    try:
        fields.at += 1  # attributes i8
        time_delta, offset_delta = fields.varints(), fields.varints()
        key_begin, key_end, null_key = fields.parts()
        value_begin, value_end, null_value = fields.parts()
    except IndexError:
        raise _first_broken(encoded) from None
    bounds = np.stack([key_begin, key_end, value_begin, value_end, ends], axis=1)
    broken = (np.diff(bounds, axis=1) < 0).any(axis=1) | (key_begin < starts)
    if broken.any():
        index = int(np.repeat(np.arange(len(encoded)), counts)[broken][0])
        raise BrokenBatch(encoded[index].head, _WITHIN, index)
    timestamp = np.repeat(first_timestamp, counts) + time_delta
    if (attributes & _APPEND_TIME).any():
        appended = np.repeat(attributes & _APPEND_TIME, counts)
        timestamp = np.where(appended, np.repeat(max_timestamp, counts), timestamp)
    return Records(
        np.repeat(base_offset, counts) + offset_delta,
        timestamp,
        np.repeat(epoch, counts),
        null_key,
        null_value,
        bounds,
        data,
        counts,
    )


def _first_broken(encoded: Sequence[Batch]) -> BrokenBatch:
    """Of batches of which at least one has a field beyond all of their data."""
    for index, batch in enumerate(encoded[:-1]):
        try:
            decode([batch])
        except BrokenBatch:
            return BrokenBatch(batch.head, _WITHIN, index)
    return BrokenBatch(encoded[-1].head, _WITHIN, len(encoded) - 1)


def _positions(encoded: Sequence[Batch], data: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Where each record begins, behind its length, and where it ends. The only loop over records."""
    import numpy as np

    starts: list[int] = []
    ends: list[int] = []
    at = 0
    for index, (head, body) in enumerate(encoded):
        if head.control:
            continue
        end = at + len(body)
        try:
            for _ in range(head.messages):
                byte = data[at]
                if byte < 0x80:
                    length, at = byte >> 1 ^ -(byte & 1), at + 1
                else:
                    length, at = _varint(data, at)
                if length < 0:
                    raise IndexError
                starts.append(at)
                at += length
                ends.append(at)
        except IndexError:
            at = end + 1
        if at != end:
            problem = _WITHIN if at > end else "does not end with its last record"
            raise BrokenBatch(head, problem, index)
    return np.array(starts, dtype=np.int64), np.array(ends, dtype=np.int64)


class _BatchFields:
    """Reads the same fields of all records at once. Raises IndexError beyond the data."""

    def __init__(self, data: np.ndarray, at: np.ndarray) -> None:
        self._data, self.at = data, at.copy()

    def varints(self) -> np.ndarray:
        import numpy as np

        byte = self._data[self.at].astype(np.uint64)
        raw, shift = byte & 0x7F, 7
        self.at += 1
        (longer,) = np.nonzero(byte > 0x7F)
        while len(longer):
            byte = self._data[self.at[longer]].astype(np.uint64)
            raw[longer] |= (byte & np.uint64(0x7F)) << np.uint64(shift)
            self.at[longer] += 1
            longer = longer[byte > 0x7F]
            shift += 7
        one = np.uint64(1)
        numbers: np.ndarray = (raw >> one).astype(np.int64) ^ -(raw & one).astype(np.int64)
        return numbers

    def parts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Bytes behind their length, or null: where they begin and end, and which are null."""
        import numpy as np

        length = self.varints()
        begin = self.at.copy()
        self.at += np.maximum(length, 0)
        return begin, self.at.copy(), length < 0


def _headers(data: bytes, at: int, end: int) -> list[tuple[str, bytes | None]]:
    """The headers of a record, which reach from `at` to `end`. Raises IndexError."""
    count, at = _varint(data, at)
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, at = _nullable(data, at, end)
        value, at = _nullable(data, at, end)
        headers.append(((name or b"").decode("utf-8", errors="backslashreplace"), value))
    if at != end:
        raise IndexError
    return headers


def _nullable(data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    """Bytes behind their length, or None, and the end position. Raises IndexError."""
    length, at = _varint(data, at)
    if length < 0:
        return None, at
    if at + length > end:
        raise IndexError
    return data[at : at + length], at + length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag varint, and its end position. Raises IndexError."""
    raw = shift = 0
    while (byte := data[at]) > 0x7F:
        raw |= (byte & 0x7F) << shift
        shift += 7
        at += 1
    raw |= byte << shift
    return raw >> 1 ^ -(raw & 1), at + 1


def decompress(codec: int, data: bytes) -> bytes:
    """Decompresses with the codec of that number in a batch's attributes. Raises ValueError."""
    if codec == 0:
        return data
    import pyarrow as pa

    try:
        if codec == _SNAPPY:
            return b"".join(map(_snappy, _snappy_blocks(data)))
        if codec in _STREAMS:
            with pa.CompressedInputStream(pa.BufferReader(data), _STREAMS[codec]) as stream:
                return bytes(stream.read())
    except (OSError, pa.ArrowException, struct.error) as error:
        raise ValueError(f"a compressed batch is broken: {error}") from None
    raise ValueError(f"no such codec: {codec}")


def _snappy_blocks(data: bytes) -> list[bytes]:
    if not data.startswith(_XERIAL):
        return [data]
    blocks, at = [], _XERIAL_HEADER
    while at < len(data):
        (size,) = struct.unpack_from(">i", data, at)
        if size <= 0:
            raise ValueError("a compressed batch is broken: an empty block of snappy")
        blocks.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    return blocks


def _snappy(block: bytes) -> bytes:
    """A block of raw snappy begins with its unpacked size, seven bits a byte."""
    import pyarrow as pa

    size = 0
    for index, byte in enumerate(block[:5]):
        size |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return bytes(pa.decompress(block, decompressed_size=size, codec="snappy", asbytes=True))
    raise ValueError("a compressed batch is broken: a block of snappy without a size")
