"""The load before the first fault: what the scenario asks for, what was attempted, and what acknowledged."""

from __future__ import annotations

import re
from typing import NamedTuple

from second_opinion.effects import Effects
from second_opinion.raw import MS, SECOND, RunTables


class Load(NamedTuple):
    """Messages between two times; `sent` without and with those at the end; `acked_with_step`: to the end of
    its step, of each width that it may have.
    """

    asked: float
    sent: frozenset[int]
    acked: int
    acked_with_step: frozenset[int]
    burst: int


def times(tables: RunTables, effects: Effects) -> tuple[int, int, bool] | None:
    """The first attempt, and the first fault's injection or the last attempt, and whether it is the latter;
    null without attempts.
    """
    attempts = [s["attempt_ns"] for s in tables.rows("sends")]
    if not attempts:
        return None
    last = max(attempts)
    end = min([last, *(e.asked for e in effects.all if e.fault != "noop")])
    return min(attempts), end, end == last


def load(tables: RunTables, begin: int, end: int) -> Load | None:
    """Of all producers between two times; null if one has no rate, as the members of a pipe."""
    specs, sends = tables.producer_specs, tables.rows("sends")
    pipes = any(spec.get("produces") for spec in tables.group_specs.values())
    if pipes or not specs or any(spec.get("rate", "max") == "max" for spec in specs.values()):
        return None
    soonest = min(_ns(spec.get("starts")) for spec in specs.values())
    asked = 0.0
    for number, spec in specs.items():
        since = begin + _ns(spec.get("starts")) - soonest
        until = since + (_ns(spec.get("duration")) or (spec.get("messages") or 0) * SECOND / spec["rate"])
        until = max([until, *(s["attempt_ns"] for s in sends if s["producer"] == number)])
        asked += spec["rate"] * max(0, min(until, end) - since) / SECOND
    acks = [s["done_ns"] for s in sends if s["outcome"] == "acked" and s["done_ns"] is not None]
    return Load(
        asked,
        frozenset(sum(begin <= s["attempt_ns"] < to for s in sends) for to in (end, end + 1)),
        sum(begin <= done < end for done in acks),
        frozenset(
            sum(begin <= done < (end // width + 1) * width for done in acks) for width in (100 * MS, SECOND)
        ),
        sum((spec.get("transactions") or {}).get("size", 0) for spec in specs.values()),
    )


def _ns(duration: str | int | None) -> int:
    """A duration of a scenario (`250ms`, `20s`, `2m`, or a number of ms) in ns."""
    match = re.fullmatch(r"([\d.]+)\s*(ms|s|m|h)?", str(duration or 0))
    assert match is not None, duration
    return round(
        float(match[1]) * {"ms": MS, "s": SECOND, "m": 60 * SECOND, "h": 3600 * SECOND}[match[2] or "ms"]
    )
