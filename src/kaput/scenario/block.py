"""What every block of a scenario file is: frozen, with the file's own names, and nothing unknown in it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from pydantic import BaseModel, ConfigDict

from kaput.scenario.source import DataPath

Found = Iterator[tuple[DataPath, str]]  # mistakes: where, and a sentence


class Block(BaseModel):
    """A block of the file: frozen, kebab-case keys, nothing unknown."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        populate_by_name=True,
        alias_generator=lambda name: name.replace("_", "-"),
        use_attribute_docstrings=True,
    )

    def rules(self) -> Found:
        """The mistakes between this block's own keys; what needs other blocks is in checks/."""
        # No validators of pydantic: these see no block with a wrong value, and would refuse recorded ones.
        yield from ()

    def broken_rules(self, path: DataPath = ()) -> Found:
        """The mistakes of this block, which is at `path`, and of all blocks in it."""
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
    """The mistakes of a block that is at `path`."""
    return (((*path, *place), text) for place, text in found)


def keys_not_taken(block: Block, kind: str, taken: Mapping[str, Collection[str]]) -> Found:
    """Keys that the block has though its kind does not take them; `taken`: by kind, those that it takes."""
    takes = taken.get(kind, ())
    names = {field.alias: name for name, field in type(block).model_fields.items()}
    for key in sorted({key for keys in taken.values() for key in keys} - set(takes)):
        if getattr(block, names[key]) is not None:
            other = f"it takes {', '.join(takes)}" if takes else "it takes no options"
            yield (key,), f"{kind} takes no {key}; {other}"


def given(block: Block, keys: tuple[str, ...]) -> list[str]:
    """Those of the keys whose value is not the default."""
    fields = type(block).model_fields
    names = {key: key.replace("-", "_") for key in keys}
    return [key for key, name in names.items() if getattr(block, name) != fields[name].default]
