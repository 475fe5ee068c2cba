"""Error responses to requests of Kafka's protocol, by the schemas of its messages (message_schemas.py).

A response has an error code for itself, or for each of its parts (partition, group, transaction, ...), which
are those of the request. So the request is decoded, and its parts are repeated. Not here: which code an API
may be answered with (scenario/apis.py).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from kaput.cluster.message_schemas import NUMBERS, BytesReader, MessageCodec, Schema

_CODES = ("ErrorCode", "PartitionErrorCode")
# A ShareFetch that is answered with an error has acknowledged nothing: without a code of their own, its
# acknowledgements would count as confirmed.
_OF_ACKNOWLEDGEMENTS, _ACKNOWLEDGED = "AcknowledgeErrorCode", "AcknowledgementBatches"
# What the parts of responses are called in their requests, where the name is another one.
_PARTS = {
    "Responses": ("TopicData", "Topics"), "PartitionResponses": ("PartitionData",), "Results": ("Topics",),
    "Partitions": ("PartitionIndexes",), "Groups": ("GroupIds",), "Coordinators": ("CoordinatorKeys",),
    "ResultsByTransaction": ("Transactions",), "ResultsByTopicV3AndBelow": ("V3AndBelowTopics",),
    "TopicResults": ("Topics",), "ResultsByPartition": ("Partitions",),
}  # fmt: skip
# The fields that say which part is meant; each tuple has names of the same thing.
_IDENTITIES = (
    ("Name", "Topic", "TopicName"), ("TopicId",), ("PartitionIndex", "Index", "Partition"), ("GroupId",),
    ("TransactionalId",), ("ProducerId",), ("Key",),
)  # fmt: skip
# What Kafka says in an error response where the schema has no such default.
_NOTHING = dict.fromkeys(("BaseOffset", "CommittedOffset", "HighWatermark", "NodeId", "Port"), -1)


class ErrorAnswer(NamedTuple):
    """`api`: its name; `whole`: whether the code is one for the response, not for each of its parts."""

    api: str
    code: int
    whole: bool


def error_answer(both: Sequence[Schema], request: bytes, answer: ErrorAnswer) -> bytes | None:
    """The frame that answers a frame, both without their size. None if there is nothing to put the code in:
    the version is unknown, the request has no parts or cannot be read, or none is expected (acks=0). `both`:
    schemas of request and response.
    """
    version = int.from_bytes(request[2:4], "big")
    asked, answered = (MessageCodec(schema, version) for schema in both)
    try:
        values = _asked(asked, request) if asked.known else {"Acks": 0}
    except (struct.error, ValueError):
        return None
    made = _Answer(answered, answer)
    body = made.fill(both[1]["fields"], values, top=True)
    if values.get("Acks") == 0 or not made.codes:
        return None
    tags = b"\0" if answered.flexible else b""
    return request[4:8] + tags + answered.write(both[1]["fields"], body)


def _asked(codec: MessageCodec, request: bytes) -> dict[str, Any]:
    reader = BytesReader(request, 8)
    reader.text(flexible=False)  # the client id
    if codec.flexible:
        reader.tags()
    return codec.read(reader)


class _Answer:
    """Fills a response; `codes`: how many error codes it has got."""

    def __init__(self, codec: MessageCodec, answer: ErrorAnswer) -> None:
        self._codec, self._answer = codec, answer
        self.codes = 0

    def fill(self, fields: Sequence[Schema], asked: Any, top: bool = False) -> dict[str, Any]:
        """The values of a struct. `asked`: that of the request, or the one value that its part is."""
        here = self._codec.fields(fields)
        deeper = any(self._has_code(self._codec.below(field)) for field in here)
        takes = any(field["name"] in _CODES for field in here) and (self._answer.whole or not deeper)
        return {field["name"]: self._value(field, asked, takes, top) for field in here}

    def _value(self, field: Schema, asked: Any, takes: bool, top: bool) -> Any:
        name, below = field["name"], self._codec.below(field)
        if name in _CODES and takes:
            self.codes += 1
            return self._answer.code
        if name == _OF_ACKNOWLEDGEMENTS and takes and isinstance(asked, dict) and asked.get(_ACKNOWLEDGED):
            return self._answer.code
        if field["type"].startswith("[]"):
            mine = () if takes or not self._has_code(below) else _parts(name, asked)
            return [self.fill(below, part) for part in mine]
        known = None if top else _identity(name, asked)
        return self._default(field) if known is None else known

    def _has_code(self, fields: Sequence[Schema]) -> bool:
        return any(
            field["name"] in _CODES or self._has_code(self._codec.below(field))
            for field in self._codec.fields(fields)
        )

    def _default(self, field: Schema) -> Any:
        type_, default = field["type"], field.get("default")
        if default == "null" or (default is None and type_ == "records" and self._codec.nullable(field)):
            return None
        if type_ == "bool":
            return str(default).lower() == "true"
        if type_ in NUMBERS:
            return int(_NOTHING.get(field["name"], 0) if default is None else default)
        if type_ == "uuid":
            return bytes(16)
        if type_ == "string":
            return default or ""
        if type_ in ("bytes", "records"):
            return b""
        return self.fill(self._codec.below(field), {}, top=True)


def _parts(name: str, asked: Any) -> Sequence[Any]:
    """The parts of a request that a response repeats as `name`."""
    names = (name, *_PARTS.get(name, ()))
    return next((asked[each] for each in names if isinstance(asked, dict) and asked.get(each)), ())


def _identity(name: str, asked: Any) -> Any:
    """What the request's part has for such a field of the response's; None if it is no identity."""
    names = next((same for same in _IDENTITIES if name in same), ())
    if not isinstance(asked, dict):
        return asked if names else None  # the number of a partition, or a key, and nothing else
    return next((asked[each] for each in names if each in asked), None)
