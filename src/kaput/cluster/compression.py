"""Decompresses Kafka's batches: gzip, snappy, LZ4 and zstd, in the framings that clients use.

kafka-python would need a package for each of them; pyarrow, which is a dependency anyway, has them all.
"""

from __future__ import annotations

import struct

import pyarrow as pa

_STREAMS = {1: "gzip", 3: "lz4", 4: "zstd"}
_SNAPPY = 2
# Kafka's own clients cut snappy into blocks (the framing of xerial's library); librdkafka does not.
_XERIAL, _XERIAL_HEADER = b"\x82SNAPPY\x00", 16


def decompress(codec: int, data: bytes) -> bytes:
    """Decompresses with a codec (its number in the batch's attributes). Raises ValueError."""
    if codec == 0:
        return data
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
    size = 0
    for index, byte in enumerate(block[:5]):
        size |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return bytes(pa.decompress(block, decompressed_size=size, codec="snappy", asbytes=True))
    raise ValueError("a compressed batch is broken: a block of snappy without a size")
