"""What every block of a scenario file is: frozen, with the file's own names, and nothing unknown in it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Block(BaseModel):
    """A block of the file: frozen, kebab-case keys, nothing unknown."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        populate_by_name=True,
        alias_generator=lambda name: name.replace("_", "-"),
        use_attribute_docstrings=True,
    )
