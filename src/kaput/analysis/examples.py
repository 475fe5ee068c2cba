"""The examples that the findings show: the first few cases of each anomaly, in one order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from kaput.analysis.names import Names

Case = dict[str, Any]  # one example, as stories.py tells it
SHOWN = 10  # of each anomaly, of the run or of a group


def first(cases: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    """The first few rows; of cases that are groups', of each group."""
    rows = cases.sort(by)
    return (
        rows.group_by("group", maintain_order=True).head(SHOWN)
        if "group" in rows.columns
        else rows.head(SHOWN)
    )


def few(stretches: pl.DataFrame) -> pl.DataFrame:
    """No more of each than are shown."""
    return stretches.with_columns(pl.min_horizontal("n", pl.lit(SHOWN, pl.Int64)).alias("n"))


def as_cases(name: str, cases: pl.DataFrame, names: Names) -> list[Case]:
    """Cases as what stories.py tells: words in place of numbers."""
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
        "holder": None if holder["producer"] is None else holder,
    }
