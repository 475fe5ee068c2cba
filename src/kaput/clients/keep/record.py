"""A kept message: all that is needed to send it again, and why it was kept. Stores keep it as JSON."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from kaput.clients.keep.store import StoreError

Headers = tuple[tuple[str, bytes | None], ...]


class Record(BaseModel):
    """A kept message; bytes are base64 in JSON."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_bytes="base64", val_json_bytes="base64")

    version: Literal[1] = 1
    id: str  # sorts in the order of `produce` calls, for each producer
    topic: str
    partition: int | None = None  # its partition, if known
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int
    error: str | None = None  # why Kafka did not accept it; None: no report so far
    tries: int = 0  # failed attempts
    in_doubt: bool = False  # Kafka may have it anyway: a replay may store it twice
    sending_until_ms: int = 0  # spool-first: until then its producer may still be sending it
    kept_ms: int

    def to_json(self) -> str:
        """The record as one line of JSON."""
        return self.model_dump_json()

    @classmethod
    def from_json(cls, text: str | bytes, where: str) -> Record:
        """Parses a record. Raises StoreError naming `where`, also for an unknown version."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise _invalid_record(error, where) from None

    @classmethod
    def from_document(cls, document: Mapping[str, Any], where: str) -> Record:
        """The same from a parsed JSON object."""
        return cls.from_json(json.dumps(document), where)


def _invalid_record(error: ValidationError, where: str) -> StoreError:
    first = error.errors()[0]
    field = ".".join(map(str, first["loc"])) or "record"
    return StoreError(f"{where}: not a record of version 1: {field}: {first['msg']}")


def as_bytes(text: bytes | str | None) -> bytes | None:
    """Encodes text as confluent-kafka does."""
    return text.encode() if isinstance(text, str) else text


def header_pairs(given: Mapping[str, Any] | Iterable[tuple[str, Any]] | None) -> Headers:
    """Headers in any form that `produce` takes."""
    pairs = given.items() if isinstance(given, Mapping) else given or ()
    return tuple((name, as_bytes(value)) for name, value in pairs)


def session_id() -> str:
    """The first half of a producer's record ids: unique, and sorted by time."""
    return f"{time.time_ns():016x}{secrets.token_hex(4)}"


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000
