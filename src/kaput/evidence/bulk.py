"""Payloads by the thousand: what identity.py does for one message, in a few steps of numpy.

Exactly the same answers; whatever is out of the ordinary goes to `Codec.decode`, one by one.
"""

from __future__ import annotations

import os
import zlib
from typing import Any, NamedTuple

import numpy as np

from kaput.evidence.identity import CRC_AT, CRC_BYTES, HEADER_BYTES, STAMP_AT, Codec
from kaput.evidence.recorder import NULL_INT, NULL_LONG

Ints = np.ndarray[Any, np.dtype[np.int32]]
Longs = np.ndarray[Any, np.dtype[np.int64]]
Bools = np.ndarray[Any, np.dtype[np.bool_]]
_Unsigned = np.ndarray[Any, np.dtype[np.uint32]]
_Words = np.ndarray[Any, np.dtype[np.uint64]]

# Payloads are compared as rows of 8-byte words, filled up with a gap. What may differ between two of a run
# is the producer (the second half of its word), seq and send time (a word each), and the checksum.
_WORD = 8
_WORDS = np.dtype("<u8")
_PRODUCER, _SEQ, _SENT, _CRC = (at // _WORD for at in (STAMP_AT - 4, STAMP_AT, STAMP_AT + 8, CRC_AT))
_GAP_BYTES = 8  # at least
_ROWS_BYTES = 1 << 18  # compared together: what stays in the processor's cache


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
        step = max(1, _ROWS_BYTES // max(1, len(payloads[0] or b""))) if payloads else 1
        if len(payloads) <= step:
            return self._decode(payloads)
        parts = [self._decode(payloads[at : at + step]) for at in range(0, len(payloads), step)]
        return Identities(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))

    def _decode(self, payloads: list[bytes | None]) -> Identities:
        count = len(payloads)
        first = self._codec.decode(payloads[0]).identity if payloads else None
        found = self._siblings_of(payloads) if first is not None else None
        if first is None or found is None:
            producer, seq = np.full(count, NULL_INT, np.int32), np.full(count, NULL_LONG, np.int64)
            intact, left = np.zeros(count, np.bool_), list(range(count))
        else:
            producer, seq, intact = found
            left = [] if intact.all() else np.flatnonzero(~intact).tolist()
            producer[left], seq[left] = NULL_INT, NULL_LONG
        for at in left:
            intact[at], identity = self._codec.decode(payloads[at])
            if identity is not None:
                producer[at], seq[at] = identity.producer, identity.seq
        return Identities(producer, seq, intact)

    def _siblings_of(self, payloads: list[bytes | None]) -> Identities | None:
        size = len(payloads[0] or b"")
        siblings = self._siblings.get(size)
        if siblings is None:
            siblings = self._siblings[size] = _Siblings(size)
        return siblings.read(payloads)


class _Siblings:
    """Payloads of one size that differ from one which is intact only in who they are and their checksum.

    CRC-32 is linear: what changes in it is the exclusive or of what each changed byte changes, and that
    depends on the byte's place alone. So the sums of many messages are checked in a few steps of numpy, as
    exactly as one by one. Everything else that a payload may be is left to `Codec.decode`.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        # Bytes that no payload can know stand between them, so that all of one size are told from others
        # that only add up to it.
        self._gap = os.urandom(_GAP_BYTES + -size % _WORD)
        self._width = (size + len(self._gap)) // _WORD
        alike = np.full((self._width, _WORD), 0xFF, np.uint8)
        alike.reshape(-1)[STAMP_AT - 4 : CRC_AT - 1] = 0
        alike.reshape(-1)[CRC_AT:HEADER_BYTES] = 0
        self._alike: _Words = alike.view(_WORDS)[:, 0]  # the bits in which siblings do not differ
        self._grow(self._alike, 0)
        self._changes: dict[int, _Unsigned] = {}

    def _grow(self, first: _Words, count: int) -> None:
        """What `count` siblings of `first` have in common, one after the other."""
        self._common = first & self._alike
        self._masks, self._commons = np.tile(self._alike, count), np.tile(self._common, count)
        self._scratch = np.empty(count * self._width, np.uint64)

    def read(self, payloads: list[bytes | None]) -> Identities | None:
        """Who each is, and whether it is an intact sibling of the first, which is intact.

        None where they are not all of one size; nothing is said of who is no sibling.
        """
        count, whole = len(payloads), self._width * _WORD
        try:
            joined = self._gap.join([*payloads, b""])  # type: ignore[list-item]
        except TypeError:  # a payload of None
            return None
        flat = np.frombuffer(joined, _WORDS) if len(joined) == count * whole else None
        if flat is None:
            return None
        rows = flat.reshape(count, self._width)
        intact = self._has_in_common(flat, rows)
        seq, sent = rows[:, _SEQ].copy(), rows[:, _SENT]
        who = rows[:, _PRODUCER] ^ rows[0, _PRODUCER]
        crc = (rows[:, _CRC] >> np.uint64(8 * (CRC_AT % _WORD))).astype(np.uint32)
        crc ^= crc[0]
        self._change(crc, seq ^ seq[0], STAMP_AT)
        self._change(crc, sent ^ sent[0], STAMP_AT + 8)
        if who.any():
            self._change(crc, who & np.uint64(0xFFFFFFFF << 32), STAMP_AT - 8)
        if crc.any():
            intact &= crc == 0
        producer = (rows[:, _PRODUCER] >> np.uint64(32)).astype(np.uint32).byteswap().view(np.int32)
        return Identities(producer, seq.byteswap().view(np.int64), intact)

    def _has_in_common(self, flat: _Words, rows: _Words) -> Bools:
        """Which rows have in common with the first whatever siblings have, and stand between their gaps."""
        if len(flat) > len(self._scratch) or ((rows[0] & self._alike) != self._common).any():
            self._grow(rows[0], max(len(rows), len(self._scratch) // self._width))
        scratch = self._scratch[: len(flat)]
        np.bitwise_and(flat, self._masks[: len(flat)], out=scratch)
        differs = scratch != self._commons[: len(flat)]
        if differs.any():
            unlike: Bools = differs.reshape(rows.shape).any(axis=1)
            return ~unlike
        return np.ones(len(rows), np.bool_)

    def _change(self, crc: _Unsigned, changed: _Words, at: int) -> None:
        """Takes out of the checksums what the changed bytes of the word at `at` change in them."""
        varying = int(np.bitwise_or.reduce(changed))
        pairs = changed.view("<u2").reshape(-1, 4)
        for pair in range(4):
            if varying >> 16 * pair & 0xFFFF:
                crc ^= self._of_pair(at + 2 * pair).take(pairs[:, pair])

    def _of_pair(self, at: int) -> _Unsigned:
        """What each value of the two bytes from one place on changes, as it stands in a payload's bytes."""
        if at not in self._changes:
            low, high = self._of_byte(at), self._of_byte(at + 1)
            self._changes[at] = (high[:, np.newaxis] ^ low).reshape(-1).byteswap()
        return self._changes[at]

    def _of_byte(self, at: int) -> _Unsigned:
        """What each value of the byte at one place changes, relative to zero."""
        rest = bytes(self._size - CRC_BYTES - at - 1)
        zero = zlib.crc32(b"\0" + rest)
        return np.array([zlib.crc32(bytes([b]) + rest) ^ zero for b in range(256)], np.uint32)
