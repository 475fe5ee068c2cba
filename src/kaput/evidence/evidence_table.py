"""The description of a table of kaput.evidence/1: its columns and their meaning. The tables: schemas.py."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa


@dataclass(frozen=True)
class Column:
    """One column. `null`: what null means there; None: it is never null."""

    name: str
    type: pa.DataType
    about: str
    null: str | None = None
    optional: bool = False  # whether a writer may leave the column out


@dataclass(frozen=True)
class EvidenceTable:
    """One table. `about`: what a row is; `writer`: who writes it; `required`: a sealed run must have it."""

    name: str
    about: str
    writer: str
    columns: tuple[Column, ...]
    required: bool = False

    @cached_property
    def schema(self) -> pa.Schema:
        """The Arrow schema."""
        return pa.schema([pa.field(c.name, c.type, nullable=c.null is not None) for c in self.columns])

    @property
    def optional_columns(self) -> tuple[str, ...]:
        """Columns that a writer may leave out."""
        return tuple(column.name for column in self.columns if column.optional)
