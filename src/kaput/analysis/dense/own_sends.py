"""The sends that a part reads by itself (homes.py): its own rows of each row group, in their order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from kaput.analysis.dense.columns import Columns, of_row_group, open_parquet
from kaput.analysis.dense.context import Context
from kaput.analysis.dense.homes import Key


def own_sends(
    part: int, context: Context, names: Sequence[str], texts: Sequence[str]
) -> Iterator[tuple[Columns, Key]]:
    """Row groups, each with the key below which no later one has a message."""
    files: dict[str, Any] = {}
    for unit, safe in context.homes.own[part] if context.homes.own else ():
        if unit.path not in files:
            files = {unit.path: open_parquet(unit.path, texts)}
        yield _mine(of_row_group(files[unit.path], unit, names), part, context), safe


def _mine(columns: Columns, part: int, context: Context) -> Columns:
    """The rows of a row group of sends that belong to a part: row groups lie across the borders of parts."""
    if columns.rows == 0:
        return columns
    seq = columns.numbers("seq")
    low, after = context.homes.stretch(int(columns.numbers("producer")[0]), part)
    inside = (seq >> context.bits >= low) & (seq >> context.bits < after)
    rows = np.flatnonzero(inside)
    if len(rows) == columns.rows:
        return columns
    if len(rows) and rows[-1] - rows[0] == len(rows) - 1:
        return columns.part(int(rows[0]), len(rows))
    return columns.take(rows)
