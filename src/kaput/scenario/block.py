"""The base class of all blocks of a scenario file: frozen, with the file's names, without unknown keys."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from pydantic import BaseModel, ConfigDict

from kaput.scenario.source import DataPath

Found = Iterator[tuple[DataPath, str]]  # mistakes: path and message


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
