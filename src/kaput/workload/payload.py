"""The identity of a message: the header that every payload starts with, encoded and decoded.

A message is one (producer, seq) of one run. Layout, big endian, 45 bytes, then padding to the wanted size:

    magic 4s "KPT1" | run id 16s | producer i32 | seq i64 | send time i64 (ns) | version u8 | crc u32

The CRC (zlib's CRC-32) covers the whole payload without its own four bytes, padding included, so that
damage anywhere shows. For clients that read only text, messages are encoded as text.
Not here: sending (workload) and counting (analysis).

For clients that read only text, such as Kafka's own Verifiable consumer, the header is in base64: 60
characters, padded with dots.
"""

from __future__ import annotations

import base64
import binascii
import struct
import uuid
import zlib
from collections.abc import Callable
from typing import NamedTuple

TEXT_PREFIX = b"S1BUM"  # the beginning of "KPT1" in base64
TEXT_BYTES = 60  # 45 bytes in base64, without padding
FILL = b"."


def encode_text(header: bytes, size: int) -> bytes:
    """A header as text of `size` bytes, or of TEXT_BYTES if that is more."""
    return binascii.b2a_base64(header, newline=False).ljust(size, FILL)


def headers(payloads: list[bytes]) -> bytes:
    """The headers of text payloads, concatenated. Only for payloads that this process made."""
    return base64.b64decode(b"".join(payload[:TEXT_BYTES] for payload in payloads))


def decode_text(payload: bytes) -> bytes | None:
    """The header of a text payload; None if it is damaged."""
    try:
        header = base64.b64decode(payload[:TEXT_BYTES], validate=True)
    except (binascii.Error, ValueError):
        return None
    return header if not payload[TEXT_BYTES:].strip(FILL) else None


MAGIC = b"KPT1"
VERSION = 1
_HEADER = struct.Struct(">4s16siqqB")
_PREFIX = struct.Struct(">4s16si")
_CRC = struct.Struct(">I")
HEADER_BYTES = _HEADER.size + _CRC.size
CRC_AT, CRC_BYTES = _HEADER.size, _CRC.size
# The position of seq and send time in a payload; the version byte and the checksum follow.
STAMP_AT, STAMP_BYTES = _PREFIX.size, 16


class Identity(NamedTuple):
    """What a payload contains: producer, seq and the time of its send attempt (ns since the epoch)."""

    producer: int
    seq: int
    sent_ns: int


class Decoded(NamedTuple):
    """`intact` False: kaput's, but damaged. `intact` True without identity: not a record of this run."""

    intact: bool
    identity: Identity | None


FOREIGN = Decoded(True, None)
CORRUPT = Decoded(False, None)


class Codec:
    """Encodes and decodes the payloads of one run. `payload_bytes` is their size, at least HEADER_BYTES.
    `text`: whether to encode as text, of at least 60 bytes; decodes every form in any case.
    """

    def __init__(
        self, run_id: uuid.UUID, payload_bytes: int = HEADER_BYTES, fill: bytes = b"", text: bool = False
    ) -> None:
        if payload_bytes < HEADER_BYTES:
            raise ValueError(f"a payload takes at least {HEADER_BYTES} bytes, not {payload_bytes}")
        self._run = run_id.bytes
        self._text_bytes = payload_bytes if text else None
        if text:
            payload_bytes = HEADER_BYTES
        size = payload_bytes - HEADER_BYTES
        self._padding = (fill * (size // len(fill) + 1))[:size] if fill else bytes(size)

    def encode(self, producer: int, seq: int, sent_ns: int) -> bytes:
        return self.encoder(producer)(seq, sent_ns)

    def encoder(self, producer: int) -> Callable[[int, int], bytes]:
        """For hot loops: returns a function that makes one producer's payloads from seq and send time (ns).
        What all its messages share is packed, and checksummed, once.
        """
        padding, crc32 = self._padding, zlib.crc32
        prefix = _PREFIX.pack(MAGIC, self._run, producer)
        summed = zlib.crc32(prefix)
        pack_rest = struct.Struct(f">qqB{len(padding)}s").pack
        pack_all = struct.Struct(f">{len(prefix)}sqqBI{len(padding)}s").pack

        def encode(seq: int, sent_ns: int) -> bytes:
            crc = crc32(pack_rest(seq, sent_ns, VERSION, padding), summed)
            return pack_all(prefix, seq, sent_ns, VERSION, crc, padding)

        size = self._text_bytes
        return encode if size is None else lambda seq, sent_ns: encode_text(encode(seq, sent_ns), size)

    def decode(self, payload: bytes | None) -> Decoded:
        """The identity in a payload. A record counts as kaput's if magic or run id is in its place."""
        if payload and payload.startswith(TEXT_PREFIX):
            header = decode_text(payload)
            return CORRUPT if header is None else self.decode(header)
        if payload is None or len(payload) < HEADER_BYTES:
            return CORRUPT if payload and payload[:4] == MAGIC else FOREIGN
        magic, run, producer, seq, sent_ns, version = _HEADER.unpack_from(payload)
        (crc,) = _CRC.unpack_from(payload, _HEADER.size)
        view = memoryview(payload)
        whole = zlib.crc32(view[HEADER_BYTES:], zlib.crc32(view[: _HEADER.size])) == crc
        if magic == MAGIC and run == self._run:
            ours = whole and version == VERSION
            return Decoded(True, Identity(producer, seq, sent_ns)) if ours else CORRUPT
        if magic != MAGIC and run != self._run:
            return FOREIGN
        # One of the two is damaged, or this is an undamaged message of another run on the same topic.
        return FOREIGN if whole and magic == MAGIC else CORRUPT
