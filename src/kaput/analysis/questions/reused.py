"""Share groups at offsets that had several records, one after the other: what is wrong with a single record.

Where a message was overwritten, what the group did at its offset until then was to that message, and what it
did afterwards to the next one. An accept of each is no double accept. What is left is no consequence of the
overwriting (consequences.py).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import polars as pl

from kaput.analysis.questions import shares
from kaput.analysis.runs.cutting import READ, overlay
from kaput.core import MS

_EVENT_MS, _CUT_MS = pl.col("at_ns") // MS, pl.col("since_ns") // MS


def of_single_records(
    log: pl.DataFrame,
    events: pl.DataFrame,
    overwritten: pl.DataFrame,
    limits: Mapping[int, int | None],
    drained: Collection[int],
) -> dict[str, pl.DataFrame]:
    """(group, place, offset, n) of the records at these offsets, by the anomaly as in `shares.cases`.

    `overwritten`: (group, place, offset, since_ns). Offsets of which some `since_ns` is null are left out:
    it is unknown which record an event was of. What happened in the same ms counts for either.
    """
    if overwritten.is_empty():
        return {}
    cuts = overwritten.select(*READ.columns, "since_ns", n=pl.lit(1, pl.Int64)).unique()
    parts, moments = overlay([events, cuts], READ)
    dated = moments.filter(pl.col("since_ns").is_not_null().all().over("part")).select("part", "since_ns")
    each = parts.with_row_index("line").join(dated, on="part")
    before, after = (
        _by_turn(each, later, log, limits, drained) for later in (_EVENT_MS > _CUT_MS, _EVENT_MS >= _CUT_MS)
    )
    return {name: rows.join(after[name], on=READ.columns, how="semi") for name, rows in before.items()}


def _by_turn(
    each: pl.DataFrame,
    later: pl.Expr,
    log: pl.DataFrame,
    limits: Mapping[int, int | None],
    drained: Collection[int],
) -> dict[str, pl.DataFrame]:
    """`each`: events with each moment at which a record was overwritten; `later`: whether that is past."""
    turns = each.group_by("line").agg(pl.exclude("since_ns").first(), turn=later.sum(), turns=pl.len())
    found: dict[str, list[pl.DataFrame]] = {name: [] for name in shares.cases(log, turns.clear(), limits, ())}
    for turn in turns["turn"].unique().sort():
        rows = turns.filter(turn=turn)
        odd = shares.cases(log, rows, limits, drained)
        # A record that came back, and was overwritten then, had nowhere to go.
        odd["lost-release"] = shares.cases(
            log, rows.filter(pl.col("turn") == pl.col("turns")), limits, drained
        )["lost-release"]
        if turn:
            # Delivery counts are of offsets: it goes on with that of the record before it.
            odd["over-delivered"] = odd["over-delivered"].clear()
        for name, cases in odd.items():
            found[name].append(cases.select(*READ.columns, "n"))
    none = each.select(*READ.columns, "n").clear()
    return {name: pl.concat([none, *frames]).unique() for name, frames in found.items()}
