"""Decodes payloads in bulk: what payload.py does for one message, vectorized with numpy.

Gives exactly the same answers; anything unusual goes to `Codec.decode`, one by one.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from kaput.core import NULL_INT, NULL_LONG
from kaput.workload.payload import CRC_AT, CRC_BYTES, HEADER_BYTES, MAGIC, STAMP_AT, Codec

Ints = np.ndarray[Any, np.dtype[np.int32]]
Longs = np.ndarray[Any, np.dtype[np.int64]]
Bools = np.ndarray[Any, np.dtype[np.bool_]]
_Unsigned = np.ndarray[Any, np.dtype[np.uint32]]
_Words = np.ndarray[Any, np.dtype[np.uint64]]

# Payloads are compared as rows of 8-byte words, padded with a gap. What may differ between two of a run
# is the producer (the second half of its word), seq and send time (a word each), and the checksum.
_WORD = 8
_WORDS = np.dtype("<u8")
_PRODUCER, _SEQ, _SENT, _CRC = (at // _WORD for at in (STAMP_AT - 4, STAMP_AT, STAMP_AT + 8, CRC_AT))
_GAP_BYTES = 8  # at least
_ROWS_BYTES = 1 << 18  # compared at once: fits the CPU cache


class Stamps:
    """Reads seqs and send times from kaput's own payloads in bulk: `size` bytes each, concatenated. `at` is
    where the STAMP_BYTES begin in each. Checks nothing: only for payloads that this process made.
    """

    def __init__(self, size: int, at: int = STAMP_AT) -> None:
        self._fields = np.dtype(
            {"names": ["stamp"], "formats": [(">i8", 2)], "offsets": [at], "itemsize": size}
        )

    def read(self, payloads: bytes) -> np.ndarray[Any, Any]:
        """All seqs, and all send times in ns; big endian, in the order of the payloads."""
        return np.frombuffer(payloads, dtype=self._fields)["stamp"].T


class Identities(NamedTuple):
    """Many decoded payloads, column by column; NULL_INT and NULL_LONG where there is no identity."""

    producer: Ints
    seq: Longs
    intact: Bools


class BulkDecoder:
    """Decodes the payloads of one run. A few cost as much as thousands: `gather` them first."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self._known: dict[int, _SameSizePayloads] = {}  # by size
        self._current = self._known[HEADER_BYTES] = _SameSizePayloads(HEADER_BYTES)  # of what is joined
        self._joined: list[bytes] = []
        self._rows = 0
        self._decoded: list[Identities] = []

    def decode(self, payloads: Sequence[bytes | None]) -> Identities:
        """`Codec.decode` of each."""
        self.gather(payloads)
        return self.gathered()

    def gather(self, payloads: Sequence[bytes | None]) -> None:
        """Adds payloads, to be decoded together with others; keeps no reference to them."""
        same_size = self._same_size(payloads[0]) if payloads else None
        if same_size is None:
            return self._one_by_one(payloads)
        for at in range(0, len(payloads), same_size.at_once):
            some = payloads[at : at + same_size.at_once]
            joined = same_size.join(some)
            if joined is None:
                self._one_by_one(some)
                continue
            if same_size is not self._current or self._rows + len(some) > same_size.at_once:
                self._settle()
                self._current = same_size
            self._joined.append(joined)
            self._rows += len(some)
        return None

    def gathered(self) -> Identities:
        """`Codec.decode` of all payloads gathered since the last call, in order."""
        self._settle()
        decoded, self._decoded = self._decoded, []
        if len(decoded) == 1:
            return decoded[0]
        decoded.append(_no_identities(0))
        return Identities(*(np.concatenate(columns) for columns in zip(*decoded, strict=True)))

    def _same_size(self, payload: bytes | None) -> _SameSizePayloads | None:
        """The decoder for payloads of this size; None if no message of kaput's is known to have it."""
        size = len(payload or b"")
        if size not in self._known and self._is_header(payload or b""):
            self._known[size] = _SameSizePayloads(size)
        return self._known.get(size)

    def _is_header(self, payload: bytes) -> bool:
        """Whether it is an intact message in binary form."""
        return payload.startswith(MAGIC) and self._codec.decode(payload).identity is not None

    def _settle(self) -> None:
        """Decodes the joined payloads: in bulk if the first is intact."""
        if not self._joined:
            return
        joined, same_size = b"".join(self._joined), self._current
        self._joined.clear()
        self._rows = 0
        if not self._is_header(joined[: same_size.size]):
            self._one_by_one(same_size.split(joined))
            return
        identities = same_size.read(joined)
        if not identities.intact.all():
            payloads = same_size.split(joined)
            for at in np.flatnonzero(~identities.intact).tolist():
                self._fill(identities, at, payloads[at])
        self._decoded.append(identities)

    def _one_by_one(self, payloads: Sequence[bytes | None]) -> None:
        self._settle()
        identities = _no_identities(len(payloads))
        for at, payload in enumerate(payloads):
            self._fill(identities, at, payload)
        self._decoded.append(identities)

    def _fill(self, identities: Identities, at: int, payload: bytes | None) -> None:
        identities.intact[at], identity = self._codec.decode(payload)
        known = identity is not None
        identities.producer[at], identities.seq[at] = identity[:2] if known else (NULL_INT, NULL_LONG)  # type: ignore[index]


def _no_identities(count: int) -> Identities:
    return Identities(np.zeros(count, np.int32), np.zeros(count, np.int64), np.zeros(count, np.bool_))


class _SameSizePayloads:
    """Payloads of one size that differ from an intact one only in identity and checksum (below: siblings).
    CRC-32 is linear: its change is the exclusive or of the changes by each changed byte, which depend only on
    the byte's value and position. So the checksums of many messages are checked in a few steps of numpy, as
    exactly as one by one. Any other payload is left to `Codec.decode`.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        # Random bytes follow each payload, to distinguish payloads of one size from those whose lengths only
        # add up to the same total.
        self._gap = os.urandom(_GAP_BYTES + -size % _WORD)
        self._width = (size + len(self._gap)) // _WORD
        self.at_once = max(1, _ROWS_BYTES // (self._width * _WORD))
        alike = np.full(self._width * _WORD, 0xFF, np.uint8)
        alike[STAMP_AT - 4 : CRC_AT - 1] = 0
        alike[CRC_AT:HEADER_BYTES] = 0
        self._alike: _Words = alike.view(_WORDS)  # the bits that siblings share
        self._model(self._alike, 0)
        self._changes: dict[int, _Unsigned] = {}

    def join(self, payloads: Sequence[bytes | None]) -> bytes | None:
        """Concatenates them, each followed by the gap; None if their total length does not fit this size."""
        try:
            joined = self._gap.join([*payloads, b""])  # type: ignore[list-item]
        except TypeError:  # a payload of None
            return None
        return joined if len(joined) == len(payloads) * self._width * _WORD else None

    def split(self, joined: bytes) -> list[bytes]:
        return joined.split(self._gap)[:-1]

    def read(self, joined: bytes) -> Identities:
        """The identities, and whether each is an intact sibling of the first; else meaningless."""
        flat = np.frombuffer(joined, _WORDS)
        rows = flat.reshape(-1, self._width)
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

    def _model(self, first: _Words, count: int) -> None:
        """Prepares the comparison: what `count` siblings of `first` have in common, concatenated."""
        self._common = first & self._alike
        self._masks, self._commons = np.tile(self._alike, count), np.tile(self._common, count)
        self._scratch = np.empty(count * self._width, np.uint64)

    def _has_in_common(self, flat: _Words, rows: _Words) -> Bools:
        """Which rows equal the first in everything that siblings share, and lie between intact gaps."""
        if len(flat) > len(self._scratch) or ((rows[0] & self._alike) != self._common).any():
            self._model(rows[0], max(len(rows), len(self._scratch) // self._width))
        scratch = self._scratch[: len(flat)]
        np.bitwise_and(flat, self._masks[: len(flat)], out=scratch)
        differs = scratch != self._commons[: len(flat)]
        if differs.any():
            alike: Bools = ~differs.reshape(rows.shape).any(axis=1)
            # If a gap is misplaced, the next payload starts at the wrong place too.
            alike[1:] &= alike[:-1].copy()
            return alike
        return np.ones(len(rows), np.bool_)

    def _change(self, crc: _Unsigned, changed: _Words, at: int) -> None:
        """Removes from the checksums the effect of the changed bytes in the word at `at`."""
        varying = int(np.bitwise_or.reduce(changed))
        pairs = changed.view("<u2").reshape(-1, 4)
        for pair in range(4):
            if varying >> 16 * pair & 0xFFFF:
                crc ^= self._pair_changes(at + 2 * pair).take(pairs[:, pair])

    def _pair_changes(self, at: int) -> _Unsigned:
        """The effect on the CRC of each value of the two bytes at `at`, in payload byte order."""
        if at not in self._changes:
            low, high = self._byte_changes(at), self._byte_changes(at + 1)
            self._changes[at] = (high[:, np.newaxis] ^ low).reshape(-1).byteswap()
        return self._changes[at]

    def _byte_changes(self, at: int) -> _Unsigned:
        """The effect on the CRC of each value of the byte at `at`, relative to zero."""
        rest = bytes(self.size - CRC_BYTES - at - 1)
        zero = zlib.crc32(b"\0" + rest)
        return np.array([zlib.crc32(bytes([b]) + rest) ^ zero for b in range(256)], np.uint32)
