"""Reads the distinct values of some columns of a big table on the driver, one row group at a time.

For questions about a whole table, such as its transactional ids. Not here: reading the tables themselves,
which the tasks do (analysis/runs/tables.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from kaput.evidence.parquet import DAMAGE, broken, footer_of, open_file, read_row_group
from kaput.evidence.reading import Evidence
from kaput.evidence.schemas import TABLES


def distinct(evidence: Evidence, table: str, columns: Sequence[str]) -> set[tuple[Any, ...]]:
    """The distinct combinations of values in these columns. Raises EvidenceError."""
    found: set[tuple[Any, ...]] = set()
    schema = TABLES[table].schema
    for path in evidence.tables[table].files:
        for index in range(footer_of(path).num_row_groups):
            rows = read_row_group(open_file(path), path, index, columns)
            try:
                # Text comes in many encodings, some of which do not support group_by.
                once = pa.table({name: rows[name].cast(schema.field(name).type) for name in columns})
                once = once.group_by(columns).aggregate([])
                found.update(zip(*(once[name].to_pylist() for name in columns), strict=True))
            except DAMAGE as error:
                raise broken(path, error) from None
    return found
