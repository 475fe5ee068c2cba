"""Messages as text, for clients that send or read nothing else: Kafka's own Verifiable tools.

Two forms. What the Java producer sends is a number alone, `PREFIX.SEQ`, whose prefix tells run and producer;
it has no checksum of its own. What kaput's producers send to be read by Java is the header of identity.py in
base64, 60 characters, filled up with dots. Not here: what a header says (identity.py).
"""

from __future__ import annotations

import base64
import binascii
import re
import uuid
from typing import NamedTuple

# A prefix is a positive int of Java's: 15 bits of the run, 16 of the producer.
_PRODUCER_BITS = 16
_RUNS = 2**15 - 1
LAST_PRODUCER = 2**_PRODUCER_BITS - 1
_NUMBER = re.compile(rb"(\d{1,10})\.(\d{1,18})")
_LONGEST = 29

ARMOUR = b"S1BUM"  # how base64 of "KPT1" begins
ARMOURED_BYTES = 60  # of 45 bytes: no padding of base64's
FILL = b"."


class Numbered(NamedTuple):
    """Who a number says it is."""

    producer: int
    seq: int


def run_tag(run_id: uuid.UUID) -> int:
    """What of a run stands in the prefixes of its messages: 1 to 32,767."""
    return run_id.int % _RUNS + 1


def prefix_of(run_id: uuid.UUID, producer: int) -> int:
    """What stands before the dot in each message of a producer: at most the greatest int of Java's."""
    assert 0 <= producer <= LAST_PRODUCER
    return run_tag(run_id) << _PRODUCER_BITS | producer


def numbered(tag: int, payload: bytes) -> Numbered | None:
    """Who a message is that is a number of that run; None for anything else."""
    found = _NUMBER.fullmatch(payload) if len(payload) <= _LONGEST else None
    if found is None:
        return None
    prefix = int(found[1])
    if prefix >> _PRODUCER_BITS != tag:
        return None
    return Numbered(prefix & LAST_PRODUCER, int(found[2]))


def armour(header: bytes, size: int) -> bytes:
    """A header as text of `size` bytes, or of ARMOURED_BYTES where that is more."""
    return binascii.b2a_base64(header, newline=False).ljust(size, FILL)


def headers(payloads: list[bytes]) -> bytes:
    """The headers of armoured payloads, one after the other. For what this process itself has made."""
    return base64.b64decode(b"".join(payload[:ARMOURED_BYTES] for payload in payloads))


def disarm(payload: bytes) -> bytes | None:
    """The header of an armoured payload; None where it is damaged."""
    try:
        header = base64.b64decode(payload[:ARMOURED_BYTES], validate=True)
    except (binascii.Error, ValueError):
        return None
    return header if not payload[ARMOURED_BYTES:].strip(FILL) else None
