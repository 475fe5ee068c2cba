"""The base class of all blocks of a scenario file: frozen, with the file's names, without unknown keys."""

from __future__ import annotations

import ast
import inspect
import sys
from collections import ChainMap
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from itertools import pairwise
from typing import Any

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler
from pydantic_core import CoreSchema

from kaput.scenario.source import DataPath

Found = Iterator[tuple[DataPath, str]]  # mistakes: path and message


class Described(BaseModel):
    """A frozen model: the text below a field in the source is its description in the JSON Schema.

    The source is read, and validators are built, when they are first needed: at each start that would take
    several tenths of a second.
    """

    model_config = ConfigDict(frozen=True, populate_by_name=True, defer_build=True)

    @classmethod
    def texts(cls) -> dict[str, str]:
        """What each field is, by its name."""
        sources = [_below_fields(each.__module__).get(each.__name__, {}) for each in cls.__mro__]
        below = ChainMap(*sources)
        fields = cls.model_fields.items()
        return {name: text for name, field in fields if (text := field.description or below.get(name))}

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        made = handler(schema)
        properties = handler.resolve_ref_schema(made).get("properties", {})
        for name, text in cls.texts().items():
            properties[cls.model_fields[name].alias or name]["description"] = text
        return made


@cache
def _below_fields(module: str) -> dict[str, dict[str, str]]:
    """The texts below the fields of each class of a module; none where there is no source."""
    try:
        classes = ast.parse(inspect.getsource(sys.modules[module])).body
    except (OSError, TypeError):
        return {}
    return {
        each.name: {
            field.target.id: inspect.cleandoc(str(text.value.value))
            for field, text in pairwise(each.body)
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
            if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
        }
        for each in classes
        if isinstance(each, ast.ClassDef)
    }


class Block(Described):
    """A block of the file: kebab-case keys, nothing unknown."""

    model_config = ConfigDict(extra="forbid", alias_generator=lambda name: name.replace("_", "-"))

    def rules(self) -> Found:
        """Mistakes between this block's own keys; checks/ has those that involve other blocks."""
        # Not pydantic validators: these skip blocks with a wrong value, and would reject recorded scenarios.
        yield from ()

    def broken_rules(self, path: DataPath = ()) -> Found:
        """Mistakes of this block, which is at `path`, and of all blocks in it."""
        yield from at(path, self.rules())
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            key: DataPath = (*path, field.alias or name)
            if isinstance(value, Block):
                yield from value.broken_rules(key)
            several = value if isinstance(value, list) else ()
            items = value.items() if isinstance(value, dict) else enumerate(several)
            for part, each in items:
                if isinstance(each, Block):
                    yield from each.broken_rules((*key, part))


def at(path: DataPath, found: Found) -> Found:
    """Prefixes the paths of a block's mistakes with `path`."""
    return (((*path, *place), text) for place, text in found)


def inapplicable_keys(block: Block, kind: str, taken: Mapping[str, Collection[str]]) -> Found:
    """Mistakes for keys that the block has but its kind does not take. `taken`: permitted keys by kind."""
    takes = taken.get(kind, ())
    names = {field.alias: name for name, field in type(block).model_fields.items()}
    for key in sorted({key for keys in taken.values() for key in keys} - set(takes)):
        if getattr(block, names[key]) is not None:
            other = f"it takes {', '.join(takes)}" if takes else "it takes no options"
            yield (key,), f"{kind} takes no {key}; {other}"


def given(block: Block, keys: tuple[str, ...]) -> list[str]:
    """The keys whose values are not the default."""
    fields = type(block).model_fields
    names = {key: key.replace("-", "_") for key in keys}
    return [key for key, name in names.items() if getattr(block, name) != fields[name].default]
