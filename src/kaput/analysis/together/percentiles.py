"""Latencies of the run from what tasks have counted."""

from __future__ import annotations

import polars as pl

from kaput.analysis.account import END_TO_END, Latency
from kaput.analysis.questions import latency


def percentiles(what: int, counts: pl.DataFrame) -> dict[int, Latency]:
    """By what they are of (account.py), from (us, times): nothing where nothing was measured."""
    found = latency.percentiles(counts)
    return {} if found is None else {what: Latency(*found)}


def end_to_end(counts: pl.DataFrame, groups: int) -> dict[int, Latency]:
    """Of each group, from (group, us, times); where there are several, of all together as well."""
    found: dict[int, Latency] = {}
    for group in range(groups):
        found |= percentiles(group, counts.filter(group=group))
    if groups > 1:
        found |= percentiles(END_TO_END, counts.group_by("us").agg(pl.col("times").sum()))
    return found
