"""Cases: what is counted as one anomaly or another, as a frame for each name.

A case has `n`, how many it stands for (a stretch of messages is as many as it has), and what tells its story:
`group` (of anomalies that are groups'), `member`, `place`, `offset`, `producer`, `seq`, `at_ns`, ... `flag`
tells those apart that are counted by themselves, too (redelivered: after a commit). Whatever a stage puts
among its cases is counted, and the first ones are shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from kaput.analysis.examples import few, first
from kaput.analysis.runs.cutting import single
from kaput.analysis.sums import Sum

Cases = Mapping[str, pl.DataFrame]
COUNTED = Sum(("name", "group", "flag"), ("n",))
UNCLEAR = Sum(("name", "group"), ("n",))
BY_MEMBER = Sum(("name", "group", "member"), ("n",))


def counted(cases: Cases) -> pl.DataFrame:
    """(name, group, flag, n): how many there are; `group` is null for those of the run."""
    return COUNTED.of(pl.concat([_counts(name, rows) for name, rows in cases.items()]))


def unclear(found: Cases) -> pl.DataFrame:
    """(name, group, n): how many there are of what nobody can tell whether it is one."""
    counts = [_counts(name, rows.drop("flag", strict=False)) for name, rows in found.items()]
    return UNCLEAR.of(pl.concat(counts))


def by_member(cases: Cases) -> pl.DataFrame:
    """(name, group, member, n): how many of each a member has, of those that tell whose they are."""
    told = [
        rows.select(pl.lit(name).alias("name"), "group", "member", "n")
        for name, rows in cases.items()
        if "group" in rows.columns and "member" in rows.columns
    ]
    return BY_MEMBER.of(pl.concat(told))


def _counts(name: str, rows: pl.DataFrame) -> pl.DataFrame:
    group = pl.col("group") if "group" in rows.columns else pl.lit(None, pl.Int64)
    flag = pl.col("flag") if "flag" in rows.columns else pl.lit(False)
    return rows.select(pl.lit(name).alias("name"), group.alias("group"), flag.alias("flag"), "n")


def shown(rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """The first ones of a name, one by one, in that order as far as they have such columns."""
    order = [column for column in by if column in rows.columns]
    # A stretch is as many cases as it has rows.
    return first(single(few(first(rows, order))), order)
