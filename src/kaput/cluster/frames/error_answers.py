"""Error responses to requests of Kafka's protocol, by the message schemas in Kafka's own client jar.

A response has an error code for itself, or for each of its parts (partition, group, transaction, ...), which
are those of the request. So the request is decoded, and its parts are repeated. Not here: which code an API
may be answered with (scenario/apis.py).
"""

from __future__ import annotations

import json
import re
import struct
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kaput.errors import LabError

_NUMBERS = {
    "bool": ">?", "int8": ">b", "int16": ">h", "uint16": ">H", "int32": ">i", "uint32": ">I", "int64": ">q",
    "float64": ">d",
}  # fmt: skip
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

Schema = Mapping[str, Any]


class ErrorAnswer(NamedTuple):
    """`api`: its name; `whole`: whether the code is one for the response, not for each of its parts."""

    api: str
    code: int
    whole: bool


def schemas(jar: Path, api: str) -> list[Schema]:
    """The schemas of request and response in a kafka-clients jar. Raises LabError if it has none."""
    with zipfile.ZipFile(jar) as opened:
        try:
            texts = [opened.read(f"common/message/{api}{kind}.json") for kind in ("Request", "Response")]
        except KeyError:
            raise LabError(f"{jar.name} does not know {api}; use a newer version of Kafka") from None
    return [json.loads(re.sub(r"(?m)^\s*//.*$", "", text.decode())) for text in texts]


def error_answer(both: Sequence[Schema], request: bytes, answer: ErrorAnswer) -> bytes | None:
    """The frame that answers a frame, both without their size. None if there is nothing to put the code in:
    the version is unknown, the request has no parts or cannot be read, or none is expected (acks=0). `both`:
    schemas of request and response.
    """
    version = int.from_bytes(request[2:4], "big")
    asked, answered = (_Codec(schema, version) for schema in both)
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


def _asked(codec: _Codec, request: bytes) -> dict[str, Any]:
    reader = _RequestReader(request, 8)
    reader.text(flexible=False)  # the client id
    if codec.flexible:
        reader.skip_tags()
    return codec.read(reader)


def _within(versions: str | None, version: int) -> bool:
    if versions in (None, "none"):
        return False
    first, _, last = versions.rstrip("+").partition("-")
    return int(first) <= version <= (int(last) if last else version if versions.endswith("+") else int(first))


class _RequestReader:
    """Reads values from the bytes of a message."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self._at = data, at

    def take(self, count: int) -> bytes:
        self._at += count
        return self._data[self._at - count : self._at]

    def number(self, type_: str) -> Any:
        (value,) = struct.unpack(_NUMBERS[type_], self.take(struct.calcsize(_NUMBERS[type_])))
        return value

    def varint(self) -> int:
        value = shift = 0
        while True:
            (byte,) = self.take(1)
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7

    def length(self, flexible: bool, type_: str) -> int:
        return self.varint() - 1 if flexible else self.number(type_)

    def text(self, flexible: bool) -> str | None:
        length = self.length(flexible, "int16")
        return None if length < 0 else self.take(length).decode()

    def skip_tags(self) -> None:
        for _ in range(self.varint()):
            self.varint()
            self.take(self.varint())


class _Codec:
    """One version of a message. Values of structs are dictionaries by Kafka's names of the fields."""

    def __init__(self, schema: Schema, version: int) -> None:
        self._schema, self._version = schema, version
        self._common = {each["name"]: each["fields"] for each in schema.get("commonStructs", ())}
        self.known = _within(schema["validVersions"], version)
        self.flexible = _within(schema["flexibleVersions"], version)

    def fields(self, fields: Sequence[Schema]) -> list[Schema]:
        """Those that this version has, without tagged ones, which may be left out."""
        return [
            field
            for field in fields
            if _within(field["versions"], self._version)
            and not _within(field.get("taggedVersions"), self._version)
        ]

    def below(self, field: Schema) -> Sequence[Schema]:
        """The fields of a struct, or of a struct in an array; none for other types."""
        own: Sequence[Schema] = field.get("fields") or self._common.get(field["type"].removeprefix("[]"), ())
        return own

    def nullable(self, field: Schema) -> bool:
        return _within(field.get("nullableVersions"), self._version)

    def read(self, reader: _RequestReader) -> dict[str, Any]:
        return self._read_struct(reader, self._schema["fields"])

    def _read_struct(self, reader: _RequestReader, fields: Sequence[Schema]) -> dict[str, Any]:
        values = {field["name"]: self._read(reader, field, field["type"]) for field in self.fields(fields)}
        if self.flexible:
            reader.skip_tags()
        return values

    def _read(self, reader: _RequestReader, field: Schema, type_: str) -> Any:
        if type_.startswith("[]"):
            count = reader.length(self.flexible, "int32")
            return [self._read(reader, field, type_[2:]) for _ in range(count)]
        if type_ in _NUMBERS:
            return reader.number(type_)
        if type_ == "uuid":
            return reader.take(16)
        if type_ == "string":
            return reader.text(self.flexible)
        if type_ in ("bytes", "records"):
            return reader.take(max(reader.length(self.flexible, "int32"), 0))
        if self.nullable(field) and not field["type"].startswith("[]") and reader.number("int8") < 0:
            return None
        return self._read_struct(reader, self.below(field))

    def write(self, fields: Sequence[Schema], values: Mapping[str, Any]) -> bytes:
        """A struct, without tagged fields."""
        written = b"".join(
            self._write(field, field["type"], values[field["name"]]) for field in self.fields(fields)
        )
        return written + (b"\0" if self.flexible else b"")

    def _write(self, field: Schema, type_: str, value: Any) -> bytes:
        if type_.startswith("[]"):
            items = b"".join(self._write(field, type_[2:], item) for item in value or ())
            return self._length(None if value is None else len(value), "int32") + items
        if type_ in _NUMBERS:
            return struct.pack(_NUMBERS[type_], value)
        if type_ == "uuid":
            return bytes(value)
        if type_ in ("string", "bytes", "records"):
            raw = value.encode() if isinstance(value, str) else value
            return self._length(
                None if raw is None else len(raw), "int16" if type_ == "string" else "int32"
            ) + (raw or b"")
        if self.nullable(field) and not field["type"].startswith("[]"):
            return b"\xff" if value is None else b"\1" + self.write(self.below(field), value)
        return self.write(self.below(field), value)

    def _length(self, length: int | None, type_: str) -> bytes:
        if not self.flexible:
            return struct.pack(_NUMBERS[type_], -1 if length is None else length)
        value, written = 0 if length is None else length + 1, bytearray()
        while value > 127:
            written.append(value & 127 | 128)
            value >>= 7
        return bytes([*written, value])


class _Answer:
    """Fills a response; `codes`: how many error codes it has got."""

    def __init__(self, codec: _Codec, answer: ErrorAnswer) -> None:
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
        if type_ in _NUMBERS:
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
