"""Segment files as Kafka writes them, made with kafka-python's builder."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
from kafka.record.memory_records import MemoryRecordsBuilder
from kafka.record.util import calc_crc32c

from kaput.cluster.record_batches import HEADER_BYTES

CODECS = {"gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
_LENGTH_AT, _EPOCH_AT, _CRC_AT, _ATTRIBUTES_AT = 8, 12, 17, 21


def batch(
    base_offset: int,
    values: Iterable[bytes | None],
    epoch: int = 0,
    control: bool = False,
    times_ms: Sequence[int] = (),
    transactional: bool = False,
    keys: Sequence[bytes] = (),
) -> bytes:
    """One uncompressed batch, with what a broker adds to it: base offset and leader epoch, which the checksum
    does not cover.
    """
    builder = MemoryRecordsBuilder(2, 0, 1 << 30)
    for number, value in enumerate(values):
        time_ms = times_ms[number] if times_ms else 1_700_000_000_000 + number
        builder.append(timestamp=time_ms, key=keys[number] if keys else None, value=value, headers=[])
    builder.close()
    data = bytearray(builder.buffer())
    struct.pack_into(">q", data, 0, base_offset)
    struct.pack_into(">i", data, _EPOCH_AT, epoch)
    struct.pack_into(">h", data, _ATTRIBUTES_AT, 0x20 * control | 0x10 * transactional)
    struct.pack_into(">I", data, _CRC_AT, calc_crc32c(data[_ATTRIBUTES_AT:]))
    return bytes(data)


def compressed(plain: bytes, codec: str, xerial: bool = False) -> bytes:
    """The same batch with its records compressed; `xerial` frames snappy as Kafka's own clients do."""
    body = plain[HEADER_BYTES:]
    if codec == "snappy":
        half = len(body) // 2
        parts = [body[:half], body[half:]] if xerial else [body]
        packed = [pa.compress(part, codec="snappy", asbytes=True) for part in parts]
        framed = b"".join(struct.pack(">i", len(part)) + part for part in packed)
        body = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + framed if xerial else packed[0]
    else:
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, codec) as stream:
            stream.write(body)
        body = sink.getvalue().to_pybytes()
    head = bytearray(plain[:HEADER_BYTES])
    struct.pack_into(">i", head, _LENGTH_AT, len(body) + HEADER_BYTES - 12)
    struct.pack_into(">h", head, _ATTRIBUTES_AT, CODECS[codec])
    return bytes(head) + body


def write_segment(replica: Path, base_offset: int, *batches: bytes) -> Path:
    """A segment file of a replica, new or written anew."""
    replica.mkdir(parents=True, exist_ok=True)
    path = replica / f"{base_offset:020d}.log"
    path.write_bytes(b"".join(batches))
    return path


def append(segment: Path, *batches: bytes) -> None:
    """What a broker does: whole batches, or a part of one, at the end."""
    with segment.open("ab") as file:
        file.write(b"".join(batches))
