"""The shape of a scenario or another file of blocks, from its model: the JSON Schema, for editors that
complete and check YAML, and the valid keys at each path, for messages (the nearest key) and overrides.
"""

from __future__ import annotations

import types
import typing
from functools import cache
from typing import Annotated, Any

from pydantic import BaseModel

from kaput.scenario.block import Block
from kaput.scenario.model import Scenario
from kaput.scenario.source import DataPath

DIALECT = "https://json-schema.org/draft/2020-12/schema"


@cache
def json_schema() -> dict[str, Any]:
    """The schema (draft 2020-12), made once; descriptions come from the model. Do not change it."""
    return schema_of(Scenario, "kaput scenario")


def schema_of(model: type[BaseModel], title: str) -> dict[str, Any]:
    schema = model.model_json_schema(by_alias=True, mode="validation")
    return {"$schema": DIALECT, **_without_titles(schema), "title": title}


def _without_titles(node: Any) -> Any:
    """Removes pydantic's titles, which repeat the field names and which editors would show."""
    if isinstance(node, list):
        return [_without_titles(entry) for entry in node]
    if not isinstance(node, dict):
        return node
    # A property may itself be named title: then its value is a schema, not text.
    return {k: _without_titles(v) for k, v in node.items() if not (k == "title" and isinstance(v, str))}


def keys_at(path: DataPath, root: type[Block] = Scenario) -> list[str]:
    """The valid keys of the mapping at `path`; empty if any key is valid (config) or none can be."""
    kind = kind_at(path, root)
    return list(_fields(kind)) if _is_block(kind) else []


def kind_at(path: DataPath, root: type[Block] = Scenario) -> Any:
    """The type at `path`: a Block class, a list, a dict or a plain type; None if the path is invalid."""
    kind: Any = root
    for part in path:
        kind = child_kind(kind, part)
        if kind is None:
            return None
    return kind


def child_kind(kind: Any, part: str | int) -> Any:
    """The type in `kind` at a key or list position; None if that is invalid."""
    if _is_block(kind):
        annotation = _fields(kind).get(str(part))
        return None if annotation is None else _plain(annotation)
    origin = typing.get_origin(kind)
    if origin is list and isinstance(part, int):
        return _plain(typing.get_args(kind)[0])
    return _plain(typing.get_args(kind)[1]) if origin is dict else None


def is_settings(kind: Any) -> bool:
    """Whether it is a mapping of names, which may have dots in them, to plain values."""
    if typing.get_origin(kind) is not dict:
        return False
    value = _plain(typing.get_args(kind)[1])
    return not _is_block(value) and typing.get_origin(value) not in (list, dict)


def takes_numbers(kind: Any) -> bool:
    """Whether what is in it has a position in a list, or a number as its key."""
    origin = typing.get_origin(kind)
    return origin is list or (origin is dict and _plain(typing.get_args(kind)[0]) is int)


def _is_block(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Block)


def _fields(block: type[Block]) -> dict[str, Any]:
    return {field.alias or name: field.annotation for name, field in block.model_fields.items()}


def _plain(annotation: Any) -> Any:
    """The annotation without Annotated; of a union, the member that is a block or a container, if any."""
    while typing.get_origin(annotation) is Annotated:
        annotation = typing.get_args(annotation)[0]
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        options = [_plain(option) for option in typing.get_args(annotation)]
        return next((o for o in options if _is_block(o) or typing.get_origin(o) in (list, dict)), options[0])
    return annotation
