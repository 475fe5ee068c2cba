"""Identifies the message of a record: by kaput's own payload, or by a number that other messages carry.

The number may be in a header, in a field of JSON, or where a regular expression finds it; likewise the name
of the producer, else all are from one producer. Records without a number are foreign.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from kaput.core import NULL_INT, NULL_LONG
from kaput.errors import UsageError
from kaput.workload.payload import Codec
from kaput.workload.payload_bulk import BulkDecoder

Headers = Sequence[tuple[str, bytes | None]] | None
Longs = np.ndarray[Any, np.dtype[np.int64]]
Identity = tuple[int, int] | None
Kind = Literal["kaput", "pattern", "header", "json"]
_LIMIT = 2**62  # of numbers of producers and messages


@dataclass(frozen=True)
class Numbering:
    """How to find the identity. `run_id`: for kaput's own payload; else `number` and `producer` say where
    number and producer's name are, depending on the kind, such as the name of a header.
    """

    kind: Kind
    run_id: str | None = None
    number: str = ""
    producer: str | None = None

    @property
    def own(self) -> bool:
        """Whether kaput's own clients send the messages."""
        return self.kind == "kaput"

    def check(self) -> None:
        """Raises UsageError for an invalid pattern, or one without a group `number`."""
        if self.kind != "pattern":
            return
        try:
            groups = re.compile(self.number).groupindex
        except re.error as error:
            raise UsageError(f"--pattern {self.number!r}: not a regular expression: {error}") from None
        if "number" not in groups:
            raise UsageError(
                f"--pattern {self.number!r} has no group `number`; write for example '(?P<number>[0-9]+)'"
            )

    def reader(self) -> Reader:
        """Makes a reader of records. To be called in each task."""
        return Reader(self)


class Reader:
    """Reads the identity of records."""

    def __init__(self, numbering: Numbering) -> None:
        self._numbering = numbering
        self._own = BulkDecoder(Codec(uuid.UUID(numbering.run_id))) if numbering.own else None
        self._pattern = re.compile(numbering.number.encode()) if numbering.kind == "pattern" else None

    def read(
        self, values: Sequence[bytes | None], headers: Sequence[Headers]
    ) -> tuple[Longs, Longs, np.ndarray[Any, np.dtype[np.bool_]]]:
        """Arrays of producers and seqs (NULL_LONG for none), and of whether each record is intact."""
        if self._own is not None:
            decoded = self._own.decode(values)
            producers = decoded.producer.astype(np.int64)
            producers[decoded.producer == NULL_INT] = NULL_LONG
            return producers, decoded.seq, decoded.intact
        who = [self._identity(value, of) for value, of in zip(values, headers, strict=True)]
        pairs = np.array([(NULL_LONG, NULL_LONG) if one is None else one for one in who], np.int64)
        pairs = pairs.reshape(-1, 2)
        return pairs[:, 0].copy(), pairs[:, 1].copy(), np.ones(len(who), np.bool_)

    def _identity(self, value: bytes | None, headers: Headers) -> Identity:
        match self._numbering.kind:
            case "header":
                return self._from_fields(dict(headers or ()))
            case "json":
                return self._from_fields(_document(value))
            case _:
                assert self._pattern is not None
                match_ = self._pattern.search(value or b"")
                if match_ is None:
                    return None
                return _identity(match_["number"], match_.groupdict().get("producer"))

    def _from_fields(self, fields: dict[str, Any]) -> Identity:
        producer = self._numbering.producer
        number = fields.get(self._numbering.number)
        return None if number is None else _identity(number, fields.get(producer) if producer else None)


def _document(value: bytes | None) -> dict[str, Any]:
    try:
        document = json.loads(value or b"null")
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _identity(number: Any, producer: Any) -> Identity:
    """(producer, seq); None if the number is invalid."""
    seq = _number(number)
    if seq is None:
        return None
    if producer is None:
        return 0, seq
    known = _number(producer)
    return (_hashed(producer) if known is None else known), seq


def _number(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return int(text) if text.isascii() and text.isdigit() and int(text) < _LIMIT else None


def _hashed(name: Any) -> int:
    """A number for a producer's name. Among a million names the chance of any collision is about 1e-7."""
    data = name if isinstance(name, bytes) else str(name).encode()
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest()) % _LIMIT
