"""The state of a watch as JSON: status.json while it lasts, and final.json."""

from __future__ import annotations

import time
from typing import Any

import polars as pl

from kaput.analysis.engine import steps
from kaput.analysis.runs.names import Names
from kaput.analysis.streaming.counts import WindowCounts, percentiles
from kaput.analysis.streaming.ledger import Totals
from kaput.analysis.streaming.state import WatchState
from kaput.core import SECOND


def status(state: WatchState, names: Names) -> dict[str, Any]:
    """The state as JSON. `behind_s`: the age of its newest row."""
    totals, counts = state.ledger.totals(), state.counts
    return {
        "version": state.version,
        "at_ns": time.time_ns(),
        "behind_s": None if not counts.newest_ns else round((time.time_ns() - counts.newest_ns) / SECOND, 3),
        "watermark_ns": counts.watermark_ns,
        "runs": state.ledger.runs,
        "complete": state.ledger.complete,
        "sent": totals.sent,
        "acked": totals.outcome("acked"),
        "failed": totals.outcome("failed"),
        "unknown": totals.outcome("unknown"),
        "missing": totals.missing,
        "late": totals.late,
        "duplicated": totals.duplicated,
        "reordered": totals.reordered,
        "phantoms": totals.phantoms,
        "corrupt": state.corrupt,
        "foreign": state.foreign,
        "fates": [{"outcome": o, "stored": s, "count": n} for (o, s), n in sorted(totals.fates.items())],
        "group_fates": [
            {"group": g, "outcome": o, "stored": s, "delivered": d, "count": n}
            for (g, o, s, d), n in sorted(totals.group_fates.items())
        ],
        "places": _places(state, totals, names),
        "latency_ms": _latencies(counts),
        "durations": _durations(counts, names),
    }


def _places(state: WatchState, totals: Totals, names: Names) -> list[dict[str, Any]]:
    words = ("sent", "acked", "stored", "delivered")
    sums = {what: state.counts.sum_of(what) for what in words}
    anomalies = {
        "missing": totals.missing_at,
        "late": totals.late_at,
        "duplicated": totals.duplicated_at,
        "reordered": totals.reordered_at,
    }
    rows = []
    for place in sorted({place for by in sums.values() for place in by} | set(state.ledger.positions)):
        topic, partition = names.located(place)
        numbers = {what: sums[what].get(place, 0) for what in words}
        position = state.ledger.positions.get(place)
        anomaly_counts = {what: at.get(place, 0) for what, at in anomalies.items()}
        rows.append(
            {"topic": topic, "partition": partition, **numbers, **anomaly_counts, "position": position}
        )
    return rows


def _latencies(counts: WindowCounts) -> dict[str, Any]:
    names = (("ack", "acked"), ("end_to_end", "delivered"))
    return {name: percentiles(counts.grades.filter(pl.col("what") == what)) for name, what in names}


def _durations(counts: WindowCounts, names: Names) -> list[dict[str, Any]]:
    """The latencies since the beginning, by partition: the middle of each grade, and its count."""
    words = {"acked": "ack", "delivered": "end_to_end"}
    grades = counts.grades.drop_nulls("place")
    us = steps.middle_us(grades["grade"].to_numpy())
    rows = []
    for (place, what, n), us_value in zip(grades.select("place", "what", "n").iter_rows(), us, strict=True):
        topic, partition = names.located(place)
        row = {"what": words[what], "topic": topic, "partition": partition}
        rows.append({**row, "ms": float(us_value) / 1000, "count": n})
    return rows
