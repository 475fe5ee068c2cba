"""The load before the first fault: what the scenario asks for, and what was attempted."""

from __future__ import annotations

from typing import NamedTuple

from second_opinion.effects import Effects
from second_opinion.raw import SECOND, RunTables


class Load(NamedTuple):
    """Messages a second."""

    asked_per_s: float | None
    reached_per_s: float | None
    begin: int
    end: int


def loads(tables: RunTables, effects: Effects) -> list[Load]:
    """In each reading of when the load before the fault ends, and of what counts as reached."""
    sends = tables.rows("sends")
    if not sends:
        return []
    first = min(s["attempt_ns"] for s in sends)
    last = max(s["attempt_ns"] for s in sends)
    rates = [spec.get("rate", "max") for spec in tables.producer_specs.values()]
    late = any(spec.get("starts") for spec in tables.producer_specs.values())
    asked = sum(rates) if rates and "max" not in rates and not late else None
    bit = [e for e in effects.all if e.fault != "noop"]
    found = []
    for faults in (effects.all, bit):
        end = min([last, *(e.begin for e in faults)])
        seconds = (end - first) / SECOND
        for times in (
            [s["attempt_ns"] for s in sends],
            [s["done_ns"] for s in sends if s["outcome"] == "acked" and s["done_ns"] is not None],
        ):
            reached = sum(first <= t < end for t in times) / seconds if seconds > 0 else None
            found.append(Load(asked, reached, first, end))
    return found
