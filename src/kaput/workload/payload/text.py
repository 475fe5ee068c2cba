"""Messages as text, for clients that read nothing else: Kafka's own Verifiable consumer.

The header of identity.py in base64, 60 characters, filled up with dots. Not here: what a header says
(identity.py).
"""

from __future__ import annotations

import base64
import binascii

ARMOUR = b"S1BUM"  # how base64 of "KPT1" begins
ARMOURED_BYTES = 60  # of 45 bytes: no padding of base64's
FILL = b"."


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
