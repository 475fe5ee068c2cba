"""Cases of share groups at offsets that held several records in turn, judged for each record separately.

If a message was overwritten, the group's events at its offset up to then concern that message, later ones the
next. One accept of each is no double accept. Cases that remain are not consequences of the overwriting
(consequences.py).
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
    """(group, place, offset, n) of the cases of single records at these offsets, by anomaly (`shares.cases`).

    `overwritten`: (group, place, offset, since_ns). Skips offsets with a null `since_ns`: it is unknown which
    record an event concerned. Events in the same ms count for either.
    """
    if overwritten.is_empty():
        return {}
    cuts = overwritten.select(*READ.columns, "since_ns", n=pl.lit(1, pl.Int64)).unique()
    parts, moments = overlay([events, cuts], READ)
    dated = moments.filter(pl.col("since_ns").is_not_null().all().over("part")).select("part", "since_ns")
    each = parts.with_row_index("line").join(dated, on="part")
    before, after = (
        _cases_by_turn(each, later, log, limits, drained)
        for later in (_EVENT_MS > _CUT_MS, _EVENT_MS >= _CUT_MS)
    )
    return {name: rows.join(after[name], on=READ.columns, how="semi") for name, rows in before.items()}


def _cases_by_turn(
    each: pl.DataFrame,
    later: pl.Expr,
    log: pl.DataFrame,
    limits: Mapping[int, int | None],
    drained: Collection[int],
) -> dict[str, pl.DataFrame]:
    """Cases of each record in turn. `each`: events joined with each time at which a record was overwritten;
    `later`: whether the event came after that.
    """
    turns = each.group_by("line").agg(pl.exclude("since_ns").first(), turn=later.sum(), turns=pl.len())
    found: dict[str, list[pl.DataFrame]] = {name: [] for name in shares.cases(log, turns.clear(), limits, ())}
    for turn in turns["turn"].unique().sort():
        rows = turns.filter(turn=turn)
        cases_of_turn = shares.cases(log, rows, limits, drained)
        # A record that was released and then overwritten could not be delivered again.
        cases_of_turn["lost-release"] = shares.cases(
            log, rows.filter(pl.col("turn") == pl.col("turns")), limits, drained
        )["lost-release"]
        if turn:
            # Delivery counts belong to offsets: they continue those of the previous record.
            cases_of_turn["over-delivered"] = cases_of_turn["over-delivered"].clear()
        for name, cases in cases_of_turn.items():
            found[name].append(cases.select(*READ.columns, "n"))
    none = each.select(*READ.columns, "n").clear()
    return {name: pl.concat([none, *frames]).unique() for name, frames in found.items()}
