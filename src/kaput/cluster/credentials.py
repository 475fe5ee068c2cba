"""Users and their rights as records of the metadata log, so that they exist from a cluster's first moment.

Kafka's storage tool can write users there too, but only with passwords on its command line, which every
process can read. The records here are the same (a test compares them): keys derived from the password, not
the password. Its place: security.py decides the users; storage.py creates the snapshot that these records are
added to.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import struct
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from kaput.cluster.protocol import DefaultRecordBatchBuilder
from kaput.cluster.record_batches import header

MECHANISM = "SCRAM-SHA-512"
_SHA_512 = 2  # the mechanism's number in records
_ITERATIONS = 4096  # the minimum: a password of 32 random bytes needs no more
_USER, _RIGHT = 11, 18  # record types
_LITERAL, _ALL, _ALLOW = 3, 2, 3
_TOPIC, _GROUP, _CLUSTER, _TRANSACTIONAL_ID = 2, 3, 4, 5
_ALL_RESOURCES = ((_TOPIC, "*"), (_GROUP, "*"), (_CLUSTER, "kafka-cluster"), (_TRANSACTIONAL_ID, "*"))
_EPOCH_AT, _BASE_OFFSET = 12, struct.Struct(">q")  # in a batch; the checksum covers neither


@dataclass(frozen=True)
class User:
    """A user, and the keys that verify the password."""

    name: str
    salt: bytes
    stored_key: bytes
    server_key: bytes

    @classmethod
    def with_password(cls, name: str, password: str, salt: bytes | None = None) -> User:
        """Derives the keys as in RFC 5802; the salt is random unless given."""
        salt = os.urandom(16) if salt is None else salt
        salted = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, _ITERATIONS)
        client_key, server_key = (
            hmac.digest(salted, what, "sha512") for what in (b"Client Key", b"Server Key")
        )
        return cls(name, salt, hashlib.sha512(client_key).digest(), server_key)

    def record(self) -> bytes:
        """Its record in the metadata log."""
        return (
            _record_frame(_USER)
            + _text(self.name)
            + bytes([_SHA_512])
            + b"".join(map(_bytes, (self.salt, self.stored_key, self.server_key)))
            + struct.pack(">i", _ITERATIONS)
            + _NO_TAGGED_FIELDS
        )


def all_rights(principal: str) -> list[bytes]:
    """Records that allow a principal (`User:kaput`) everything; ACLs that deny still apply."""
    return [
        _record_frame(_RIGHT)
        + uuid.uuid4().bytes
        + bytes([kind])
        + _text(name)
        + bytes([_LITERAL])
        + _text(principal)
        + _text("*")  # from any host
        + bytes([_ALL, _ALLOW])
        + _NO_TAGGED_FIELDS
        for kind, name in _ALL_RESOURCES
    ]


def with_records(snapshot: bytes, records: Sequence[bytes]) -> bytes:
    """Inserts these records before the footer of a snapshot that storage was formatted with."""
    at = last = 0
    while at < len(snapshot):
        found = header(snapshot, at)
        if found is None or at + found.size > len(snapshot):
            raise ValueError("a snapshot is torn")
        at, last = at + found.size, at
    (base,) = _BASE_OFFSET.unpack_from(snapshot, last)
    batch, footer = bytearray(_batch(records)), bytearray(snapshot[last:])
    _BASE_OFFSET.pack_into(batch, 0, base)
    struct.pack_into(">i", batch, _EPOCH_AT, 0)
    _BASE_OFFSET.pack_into(footer, 0, base + len(records))
    return snapshot[:last] + bytes(batch) + bytes(footer)


def _batch(records: Sequence[bytes]) -> bytes:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 20,
    )
    now_ms = time.time_ns() // 1_000_000
    for number, record in enumerate(records):
        builder.append(number, timestamp=now_ms, key=None, value=record, headers=[])
    return bytes(builder.build())


_NO_TAGGED_FIELDS = b"\x00"


def _record_frame(number: int) -> bytes:
    """The frame of a record: version of the frame, kind, version of the record."""
    return bytes([1, number, 0])


def _text(text: str) -> bytes:
    return _bytes(text.encode())


def _bytes(data: bytes) -> bytes:
    """Compact bytes: length + 1 in one byte, then the data."""
    if len(data) > 126:
        raise ValueError("too long for a length of one byte")
    return bytes([len(data) + 1]) + data
