"""Picks the examples that the findings show: the first few cases of each anomaly, in a fixed order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from kaput.analysis.runs.cutting import single
from kaput.analysis.runs.names import Names

Case = dict[str, Any]  # one example, with names instead of numbers, from which a story is written
SHOWN = 10  # of each anomaly, of the run or of a group


def shown(rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """The first cases, one per row: a row that stands for n messages becomes up to n rows."""
    few = pl.min_horizontal("n", pl.lit(SHOWN, pl.Int64)).alias("n")
    return first(single(first(rows, by).with_columns(few)), by)


def first(cases: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """The first SHOWN rows (of each group, if there are groups), sorted by those columns that exist."""
    rows = cases.sort([column for column in by if column in cases.columns])
    if "group" in rows.columns:
        return rows.group_by("group", maintain_order=True).head(SHOWN)
    return rows.head(SHOWN)


def as_cases(name: str, cases: pl.DataFrame, names: Names) -> list[Case]:
    """Converts rows to cases, with names instead of numbers."""
    return [_named({"name": name, **row}, names) for row in cases.iter_rows(named=True)]


def _named(row: Mapping[str, Any], names: Names) -> Case:
    topic = None if row.get("topic") is None else names.topics[row["topic"]]
    where = names.place(row.get("place")) or (topic, None)
    member = None if row.get("member") is None else names.members[row["member"]]
    holder = {"producer": row.get("holder_producer"), "seq": row.get("holder_seq")}
    return {
        **row,
        "grp": row.get("group"),
        "topic": where[0],
        "partition": where[1],
        "member": member,
        "store": None if row.get("store") is None else names.stores[row["store"]],
        "holder": None if holder["producer"] is None else holder,
    }
