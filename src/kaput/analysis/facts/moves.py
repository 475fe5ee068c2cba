"""When clients were moved to another cluster, by the plan table and the faults: from when on they waited.

The moment is when the first fault took effect that came no later than the first step which moved anybody.
Without one, of writes when the source was fenced, else when producers were told to move; of reads when groups
were told to move.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kaput.analysis.facts.inputs import Inputs
from kaput.scenario.vocabulary import NOOP

_MOVES = ("move-producers", "move-groups")


class Moments(NamedTuple):
    """From when on producers and groups waited; None where nothing tells."""

    writes: int | None = None
    reads: int | None = None


NO_MOVES = Moments()


def plan_steps(given: Inputs) -> list[dict[str, Any]]:
    """The plan table, in the order of time."""
    return sorted(given.evidence.rows("plan"), key=lambda row: (row["started_ns"], row["step"]))


def moments(given: Inputs) -> Moments:
    """Of the first move."""
    steps = plan_steps(given)
    if not steps:
        return NO_MOVES
    first = {row["kind"]: row for row in reversed(steps) if row["outcome"] == "done"}
    told: list[int | None] = [first[kind]["started_ns"] if kind in first else None for kind in _MOVES]
    moved = min((ns for ns in told if ns is not None), default=None)
    effects = [f.effective_ns for f in given.faults if f.proven and f.fault != NOOP]
    before = [ns for ns in effects if ns is not None and (moved is None or ns <= moved)]
    if before:
        return Moments(min(before), min(before))
    fence = first.get("fence")
    fenced = None if fence is None else fence["ended_ns"] or fence["started_ns"]
    return Moments(told[0] if fenced is None else fenced, told[1])
