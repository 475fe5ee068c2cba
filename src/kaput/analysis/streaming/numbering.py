"""Which message a record is: by kaput's own payload, or by a number that anybody's messages carry.

A number may stand in a header, in a field of JSON, or where a regular expression finds it; so may the name of
its producer, else all are of one producer. Whatever carries no number is foreign.
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
from kaput.workload.payload.bulk import BulkDecoder
from kaput.workload.payload.identity import Codec

Headers = Sequence[tuple[str, bytes | None]] | None
Longs = np.ndarray[Any, np.dtype[np.int64]]
Who = tuple[int, int] | None
Kind = Literal["kaput", "pattern", "header", "json"]
_MOST = 2**62  # numbers of producers and messages


@dataclass(frozen=True)
class Numbering:
    """`run_id`: of kaput's own payload; else `number` says where the number is, and `producer` where the name
    of the producer is: of the kind's own, such as a header's name.
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
        """Raises UsageError for a pattern that is none, or that has no number."""
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
        """Reads records; made in each task."""
        return Reader(self)


class Reader:
    """Reads who records are: arrays of producers, seqs (NULL_LONG for none), and whether they are intact."""

    def __init__(self, numbering: Numbering) -> None:
        self._numbering = numbering
        self._own = BulkDecoder(Codec(uuid.UUID(numbering.run_id))) if numbering.own else None
        self._pattern = re.compile(numbering.number.encode()) if numbering.kind == "pattern" else None

    def read(
        self, values: Sequence[bytes | None], headers: Sequence[Headers]
    ) -> tuple[Longs, Longs, np.ndarray[Any, np.dtype[np.bool_]]]:
        """Of each record."""
        if self._own is not None:
            found = self._own.decode(values)
            producers = found.producer.astype(np.int64)
            producers[found.producer == NULL_INT] = NULL_LONG
            return producers, found.seq, found.intact
        who = [self._who(value, of) for value, of in zip(values, headers, strict=True)]
        pairs = np.array([(NULL_LONG, NULL_LONG) if one is None else one for one in who], np.int64)
        pairs = pairs.reshape(-1, 2)
        return pairs[:, 0].copy(), pairs[:, 1].copy(), np.ones(len(who), np.bool_)

    def _who(self, value: bytes | None, headers: Headers) -> Who:
        match self._numbering.kind:
            case "header":
                return self._of(dict(headers or ()))
            case "json":
                return self._of(_document(value))
            case _:
                assert self._pattern is not None
                found = self._pattern.search(value or b"")
                return None if found is None else _who(found["number"], found.groupdict().get("producer"))

    def _of(self, fields: dict[str, Any]) -> Who:
        producer = self._numbering.producer
        number = fields.get(self._numbering.number)
        return None if number is None else _who(number, fields.get(producer) if producer else None)


def _document(value: bytes | None) -> dict[str, Any]:
    try:
        found = json.loads(value or b"null")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _who(number: Any, producer: Any) -> Who:
    """None where the number is none."""
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
    return int(text) if text.isascii() and text.isdigit() and int(text) < _MOST else None


def _hashed(name: Any) -> int:
    """A number for a producer's name: two of a million get the same one once in ten million times."""
    data = name if isinstance(name, bytes) else str(name).encode()
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest()) % _MOST
