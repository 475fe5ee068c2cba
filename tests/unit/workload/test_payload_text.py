"""Messages as text: kept apart from everybody else's, one by one and by the thousand."""

from __future__ import annotations

import random
import uuid

import pytest

from kaput.core import NULL_INT
from kaput.workload.payload import (
    CORRUPT,
    FOREIGN,
    HEADER_BYTES,
    TEXT_BYTES,
    Codec,
    Decoded,
    Identity,
    headers,
)
from kaput.workload.payload_bulk import BulkDecoder

RUN, OTHER = uuid.UUID(int=12345), uuid.UUID(int=12346)


@pytest.mark.parametrize("payload", [b"", b"7", b"7.1", b".1", b"1.", b"1.2.3", b"-1.2", b"9" * 50])
def test_other_text_is_foreign(payload: bytes) -> None:
    """Also what looks like a number."""
    assert Codec(RUN).decode(payload) == FOREIGN


@pytest.mark.parametrize("size", [HEADER_BYTES, TEXT_BYTES, 100])
def test_text_payload_is_ascii_and_damage_is_detected(size: int) -> None:
    """It says who it is and when it was sent; one byte of another kind, and it is corrupt or nobody's."""
    payload = Codec(RUN, size, text=True).encode(3, 99, 123_456_789)
    assert payload.isascii() and len(payload) == max(size, TEXT_BYTES)
    codec = Codec(RUN)
    assert codec.decode(payload) == Decoded(True, Identity(3, 99, 123_456_789))
    assert Codec(OTHER).decode(payload) == FOREIGN
    for at in range(len(payload)):
        for byte in b"A*\xff":
            damaged = payload[:at] + bytes([byte]) + payload[at + 1 :]
            assert damaged == payload or codec.decode(damaged) in (CORRUPT, FOREIGN)
    assert codec.decode(payload[:50]) == CORRUPT
    assert Codec(RUN, HEADER_BYTES).decode(headers([payload])).identity == (3, 99, 123_456_789)


@pytest.mark.parametrize("size", [HEADER_BYTES, TEXT_BYTES, 100])
def test_bulk_and_single_decoding_of_text_agree(size: int) -> None:
    """Mixed with the other form of the same size, damaged and foreign ones, in any order."""
    draw = random.Random(size)
    codec = Codec(RUN)
    kinds = [
        lambda n: Codec(RUN, size).encode(n % 5, n, n),
        lambda n: Codec(RUN, size, text=True).encode(n % 5, n, n),
        lambda n: Codec(RUN, size, text=True).encode(1, n, n)[:-1] + b"x",
        lambda n: b"x" * size,
        lambda n: None,
    ]
    for most in range(1, len(kinds) + 1):
        payloads = [draw.choice(kinds[:most])(n) for n in range(300)]
        for shuffled in (payloads, payloads[::-1], sorted(payloads, key=str)):
            found = BulkDecoder(codec).decode(shuffled)
            for at, payload in enumerate(shuffled):
                intact, who = codec.decode(payload)
                assert bool(found.intact[at]) == intact
                if who is None:
                    assert found.producer[at] == NULL_INT
                else:
                    assert (found.producer[at], found.seq[at]) == who[:2]
