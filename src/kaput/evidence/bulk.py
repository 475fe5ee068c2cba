"""Payloads by the thousand: what identity.py does for one message, in a few steps of numpy.

Exactly the same answers; whatever is out of the ordinary goes to `Codec.decode`, one by one.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from kaput.evidence.identity import CRC_AT, CRC_BYTES, HEADER_BYTES, STAMP_AT, Codec
from kaput.evidence.recorder import NULL_INT, NULL_LONG

Ints = np.ndarray[Any, np.dtype[np.int32]]
Longs = np.ndarray[Any, np.dtype[np.int64]]
Bools = np.ndarray[Any, np.dtype[np.bool_]]
_Unsigned = np.ndarray[Any, np.dtype[np.uint32]]

# What differs between the messages of a run, besides the checksum: name, place and bytes (big endian).
_VARYING = (("producer", STAMP_AT - 4, 4), ("seq", STAMP_AT, 8), ("ns", STAMP_AT + 8, 8))


class Stamps:
    """Reads seqs and send times out of own payloads in bulk: `size` bytes each, one after the other.

    `at` is where the STAMP_BYTES begin in each. Nothing is checked: for what this process itself has made.
    """

    def __init__(self, size: int, at: int = STAMP_AT) -> None:
        self._fields = np.dtype(
            {"names": ["stamp"], "formats": [(">i8", 2)], "offsets": [at], "itemsize": size}
        )

    def read(self, payloads: bytes) -> np.ndarray[Any, Any]:
        """All seqs, and all send times in ns; as they stand in the bytes, in the order of those."""
        return np.frombuffer(payloads, dtype=self._fields)["stamp"].T


class Identities(NamedTuple):
    """Many payloads decoded, column by column; NULL_INT and NULL_LONG stand where there is no identity."""

    producer: Ints
    seq: Longs
    intact: Bools


class BulkDecoder:
    """Decodes the payloads of one run."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self._siblings: dict[int, _Siblings] = {}

    def decode(self, payloads: list[bytes | None]) -> Identities:
        """`Codec.decode` of each: in bulk where all are of one size and the first is intact."""
        count = len(payloads)
        producer, seq = np.full(count, NULL_INT, np.int32), np.full(count, NULL_LONG, np.int64)
        intact = np.zeros(count, np.bool_)
        left: Iterable[int] = range(count)
        first = self._codec.decode(payloads[0]).identity if payloads else None
        alike = _of_one_size(payloads) if first is not None else None
        if first is not None and alike is not None:
            siblings = self._siblings.setdefault(len(alike[0]), _Siblings(len(alike[0])))
            producers, seqs, intact = siblings.differences(alike)
            producer[intact], seq[intact] = producers[intact] ^ first.producer, seqs[intact] ^ first.seq
            left = np.flatnonzero(~intact).tolist()
        for at in left:
            intact[at], identity = self._codec.decode(payloads[at])
            if identity is not None:
                producer[at], seq[at] = identity.producer, identity.seq
        return Identities(producer, seq, intact)


def _of_one_size(payloads: list[bytes | None]) -> list[bytes] | None:
    whole: Any = payloads
    try:
        return whole if len(set(map(len, whole))) == 1 else None
    except TypeError:  # a payload of None has no length
        return None


class _Siblings:
    """Payloads of one size that differ from one which is intact only in who they are and their checksum.

    CRC-32 is linear: what changes in it is the exclusive or of what each changed byte changes, and that
    depends on the byte's place alone. So the sums of many messages are checked in a few steps of numpy, as
    exactly as one by one. Everything else that a payload may be is left to `Codec.decode`.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._fields = np.dtype(
            {
                "names": ["producer", "seq", "ns", "crc"],
                "formats": [">u4", ">u8", ">u8", ">u4"],
                "offsets": [*(at for _, at, _ in _VARYING), CRC_AT],
                "itemsize": size,
            }
        )
        self._changes: dict[int, _Unsigned] = {}

    def differences(self, payloads: list[bytes]) -> tuple[Longs, Longs, Bools]:
        """Producer and seq of each, xor those of the first, and whether it is its intact sibling."""
        rows = np.frombuffer(b"".join(payloads), np.uint8).reshape(len(payloads), self._size)
        differ = rows ^ rows[0]
        changed = differ.view(self._fields)[:, 0]
        fields = {name: changed[name].astype(np.uint64) for name in ("producer", "seq", "ns")}
        crc = changed["crc"].astype(np.uint32)
        for name, at, width in _VARYING:
            crc ^= self._change(fields[name], at, width)
        whole = crc == 0
        differ[:, _VARYING[0][1] : CRC_AT - 1] = 0
        differ[:, CRC_AT:HEADER_BYTES] = 0
        if differ.any():
            whole &= ~differ.any(axis=1)
        return fields["producer"].astype(np.int64), fields["seq"].astype(np.int64), whole

    def _change(self, field: np.ndarray[Any, Any], at: int, width: int) -> _Unsigned:
        """What the changed bytes of a field change in the checksum."""
        crc = np.zeros(len(field), np.uint32)
        varying = int(np.bitwise_or.reduce(field))
        for byte in range(width):
            if varying >> 8 * byte & 0xFF:
                crc ^= self._of_byte(at + width - 1 - byte)[(field >> np.uint64(8 * byte)) & np.uint64(0xFF)]
        return crc

    def _of_byte(self, at: int) -> _Unsigned:
        """What each value of the byte at one place changes, relative to zero."""
        if at not in self._changes:
            rest = bytes(self._size - CRC_BYTES - at - 1)
            zero = zlib.crc32(b"\0" + rest)
            self._changes[at] = np.array(
                [zlib.crc32(bytes([b]) + rest) ^ zero for b in range(256)], np.uint32
            )
        return self._changes[at]
