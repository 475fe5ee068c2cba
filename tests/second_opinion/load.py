"""The load before the first fault: what the scenario asks for, and what was attempted."""

from __future__ import annotations

import re
from typing import NamedTuple

from second_opinion.effects import Effects
from second_opinion.raw import MS, SECOND, RunTables


class Load(NamedTuple):
    """Messages a second."""

    asked_per_s: float | None
    reached_per_s: float | None
    begin: int
    end: int


def loads(tables: RunTables, effects: Effects) -> list[Load]:
    """Before the first fault, in each reading of what counts as reached."""
    sends = tables.rows("sends")
    if not sends:
        return []
    first = min(s["attempt_ns"] for s in sends)
    last = max(s["attempt_ns"] for s in sends)
    end = min([last, *(e.asked for e in effects.all if e.fault != "noop")])
    seconds, found = (end - first) / SECOND, []
    for times in (
        [s["attempt_ns"] for s in sends],
        [s["done_ns"] for s in sends if s["outcome"] == "acked" and s["done_ns"] is not None],
    ):
        reached = sum(first <= t < end for t in times) / seconds if seconds > 0 else None
        found.append(Load(asked(tables, first, end), reached, first, end))
    return found


def asked(tables: RunTables, begin: int, end: int) -> float | None:
    """The mean rate that the producers were to have between two times; null if one has none."""
    specs = tables.producer_specs
    if end <= begin or not specs or any(spec.get("rate", "max") == "max" for spec in specs.values()):
        return None
    first = min(s["attempt_ns"] for s in tables.rows("sends"))
    soonest = min(_ns(spec.get("starts")) for spec in specs.values())
    total = 0.0
    for number, spec in specs.items():
        since = first + _ns(spec.get("starts")) - soonest
        until = since + (_ns(spec.get("duration")) or (spec.get("messages") or 0) * SECOND / spec["rate"])
        until = max([until, *(s["attempt_ns"] for s in tables.rows("sends") if s["producer"] == number)])
        total += spec["rate"] * max(0, min(until, end) - max(since, begin)) / (end - begin)
    return total


def _ns(duration: str | int | None) -> int:
    """A duration of a scenario (`250ms`, `20s`, `2m`, or a number of ms) in ns."""
    match = re.fullmatch(r"([\d.]+)\s*(ms|s|m|h)?", str(duration or 0))
    assert match is not None, duration
    return round(
        float(match[1]) * {"ms": MS, "s": SECOND, "m": 60 * SECOND, "h": 3600 * SECOND}[match[2] or "ms"]
    )
