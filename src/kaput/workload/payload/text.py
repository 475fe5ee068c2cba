"""Messages as text, for clients that read only text: Kafka's own Verifiable consumer.

The header of identity.py in base64, 60 characters, padded with dots. Not here: what a header contains
(identity.py).
"""

from __future__ import annotations

import base64
import binascii

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
