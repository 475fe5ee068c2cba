"""Kafka's messages, read and written by the schemas in Kafka's own jars: those of its protocol, and the
records of its metadata log.

Not here: what they mean (frames/error_answers.py, metadata_log.py).
"""

from __future__ import annotations

import json
import re
import struct
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kaput.errors import LabError

NUMBERS = {
    "bool": ">?", "int8": ">b", "int16": ">h", "uint16": ">H", "int32": ">i", "uint32": ">I", "int64": ">q",
    "float64": ">d",
}  # fmt: skip
Schema = Mapping[str, Any]


def read_schemas(jars: Sequence[Path], kind: str, names: Sequence[str]) -> list[Schema]:
    """The schemas of that kind (`message`: of the protocol; `metadata`: of the metadata log) in Kafka's jars.
    Raises LabError if one is missing.
    """
    prefix = {"message": "kafka-clients-", "metadata": "kafka-metadata-"}[kind]
    jar = next((each for each in jars if each.name.startswith(prefix)), None)
    if jar is None:
        raise LabError(f"there is no {prefix}*.jar, which describes {names[0]}")
    with zipfile.ZipFile(jar) as opened:
        try:
            texts = [opened.read(f"common/{kind}/{name}.json") for name in names]
        except KeyError as error:
            name = re.search(r"(\w+?)(Request)?\.json", str(error))
            known = name[1] if name is not None else names[0]
            raise LabError(f"{jar.name} does not know {known}; use a newer version of Kafka") from None
    return [json.loads(re.sub(r"(?m)^\s*//.*$", "", text.decode())) for text in texts]


def _within(versions: str | None, version: int) -> bool:
    if versions in (None, "none"):
        return False
    first, _, last = versions.rstrip("+").partition("-")
    return int(first) <= version <= (int(last) if last else version if versions.endswith("+") else int(first))


class BytesReader:
    """Reads values from the bytes of a message. Raises ValueError or struct.error beyond their end."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self._data, self._at = data, at

    def take(self, count: int) -> bytes:
        self._at += count
        if self._at > len(self._data):
            raise ValueError("the message is cut off")
        return self._data[self._at - count : self._at]

    def number(self, type_: str) -> Any:
        (value,) = struct.unpack(NUMBERS[type_], self.take(struct.calcsize(NUMBERS[type_])))
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

    def tags(self) -> dict[int, bytes]:
        """The tagged fields that follow, by tag."""
        return {self.varint(): self.take(self.varint()) for _ in range(self.varint())}


class MessageCodec:
    """One version of a message. Values of structs are dictionaries by Kafka's names of the fields."""

    def __init__(self, schema: Schema, version: int) -> None:
        self._schema, self._version = schema, version
        self._common = {each["name"]: each["fields"] for each in schema.get("commonStructs", ())}
        self._split: dict[int, tuple[list[Schema], dict[int, Schema]]] = {}  # by id of the list of fields
        self.known = _within(schema["validVersions"], version)
        self.flexible = _within(schema["flexibleVersions"], version)

    def fields(self, fields: Sequence[Schema]) -> list[Schema]:
        """Those that this version has, without tagged ones, which may be left out."""
        return self._fields_and_tags(fields)[0]

    def _fields_and_tags(self, fields: Sequence[Schema]) -> tuple[list[Schema], dict[int, Schema]]:
        if id(fields) not in self._split:
            here = [each for each in fields if _within(each["versions"], self._version)]
            tagged = [each for each in here if _within(each.get("taggedVersions"), self._version)]
            rest = [each for each in here if each not in tagged]
            self._split[id(fields)] = rest, {each["tag"]: each for each in tagged}
        return self._split[id(fields)]

    def below(self, field: Schema) -> Sequence[Schema]:
        """The fields of a struct, or of a struct in an array; none for other types."""
        own: Sequence[Schema] = field.get("fields") or self._common.get(field["type"].removeprefix("[]"), ())
        return own

    def nullable(self, field: Schema) -> bool:
        return _within(field.get("nullableVersions"), self._version)

    def read(self, reader: BytesReader) -> dict[str, Any]:
        """The fields, with those tagged ones that are there. Raises ValueError or struct.error."""
        return self._read_struct(reader, self._schema["fields"])

    def _read_struct(self, reader: BytesReader, fields: Sequence[Schema]) -> dict[str, Any]:
        always, tagged = self._fields_and_tags(fields)
        values = {field["name"]: self._read(reader, field, field["type"]) for field in always}
        for tag, data in reader.tags().items() if self.flexible else ():
            if (field := tagged.get(tag)) is not None:
                values[field["name"]] = self._read(BytesReader(data), field, field["type"])
        return values

    def _read(self, reader: BytesReader, field: Schema, type_: str) -> Any:
        if type_.startswith("[]"):
            count = reader.length(self.flexible, "int32")
            return [self._read(reader, field, type_[2:]) for _ in range(count)]
        if type_ in NUMBERS:
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
        if type_ in NUMBERS:
            return struct.pack(NUMBERS[type_], value)
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
            return struct.pack(NUMBERS[type_], -1 if length is None else length)
        value, written = 0 if length is None else length + 1, bytearray()
        while value > 127:
            written.append(value & 127 | 128)
            value >>= 7
        return bytes([*written, value])
