"""When clients that were moved to another cluster began to wait, from the plan table and the faults.

That is when the first fault took effect, if it was no later than the first step that moved clients. Without
one: for writes when the source was fenced, else when producers were told to move; for reads when groups were
told to move.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kaput.analysis.facts.inputs import Inputs
from kaput.scenario.vocabulary import NOOP

_MOVES = ("move-producers", "move-groups")


class Moments(NamedTuple):
    """When producers (`writes`) and groups (`reads`) began to wait; None if unknown."""

    writes: int | None = None
    reads: int | None = None


NO_MOVES = Moments()


def plan_steps(given: Inputs) -> list[dict[str, Any]]:
    """The plan table, by time."""
    return sorted(given.evidence.rows("plan"), key=lambda row: (row["started_ns"], row["step"]))


def moments(given: Inputs) -> Moments:
    """The moments of the first move."""
    steps = plan_steps(given)
    if not steps:
        return NO_MOVES
    first = {row["kind"]: row for row in reversed(steps) if row["outcome"] == "done"}
    move_times: list[int | None] = [first[kind]["started_ns"] if kind in first else None for kind in _MOVES]
    moved = min((ns for ns in move_times if ns is not None), default=None)
    effects = [f.effective_ns for f in given.faults if f.proven and f.fault != NOOP]
    before = [ns for ns in effects if ns is not None and (moved is None or ns <= moved)]
    if before:
        return Moments(min(before), min(before))
    fence = first.get("fence")
    fenced = None if fence is None else fence["ended_ns"] or fence["started_ns"]
    return Moments(move_times[0] if fenced is None else fenced, move_times[1])
