"""Moves many clients to another cluster at once: instructs them, waits, and collects their reports.

In two steps, as each client does it (workload/moving.py): held, then moved. Does not wait for a client that
has ended, or has nothing left to send. Not here: when, and why (runner/plan.py).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from kaput.workload.client_spec import Instruction
from kaput.workload.moving import Destination, Hold
from kaput.workload.supervision.client_process import ClientProcess

_POLL_S = 0.01
MARGIN_S = 20.0  # for closing and opening clients, in addition to waiting for outcomes
JOIN_S = 60.0


@dataclass(frozen=True)
class Mover:
    """A process whose clients are moved, which reports `reports` times."""

    client: ClientProcess
    reports: int = 1

    def over(self, kind: str) -> bool:
        """Whether it will not report that: it has ended, or has nothing left to move."""
        last = "done" if kind == "held" else "sent"
        return not self.client.process.running or self.client.reported[last].is_set()


@dataclass(frozen=True)
class Moved:
    """The result: the clients' reports, sentences about those that were late, and where members started."""

    reports: list[Mapping[str, Any]]
    late: list[str]
    began: list[Mapping[str, Any]] = field(default_factory=list)

    @property
    def given_up(self) -> int:
        """Messages without an outcome when their producer was held."""
        return sum(report.get("given_up", 0) for report in self.reports)

    @property
    def errors(self) -> list[str]:
        """Errors that producers reported, and continued despite."""
        return [report["error"] for report in self.reports if report.get("error")]


def hold_all(movers: Sequence[Mover], hold: Hold) -> Moved:
    """Makes every client stop using its cluster."""
    fields = {"settle_ms": round(hold.settle_s * 1000), "commit": hold.commit}
    return _instruct_all(movers, "hold", "held", 2 * hold.settle_s + MARGIN_S, fields)


def move_all(movers: Sequence[Mover], to: Destination) -> Moved:
    """Makes every client start on that cluster."""
    return _instruct_all(movers, "move", "moved", JOIN_S, vars(to))


def _instruct_all(
    movers: Sequence[Mover],
    instruction: Instruction,
    report: Literal["held", "moved"],
    limit_s: float,
    fields: Mapping[str, Any],
) -> Moved:
    running = [mover for mover in movers if mover.client.process.running]
    before = {id(mover): len(mover.client.moves[report]) for mover in running}
    begun = {id(mover): len(mover.client.moves["began"]) for mover in running}
    for mover in running:
        mover.client.send(instruction, **fields)

    def waits(mover: Mover) -> bool:
        reported = len(mover.client.moves[report]) - before[id(mover)]
        return reported < mover.reports and not mover.over(report)

    limit, waiting = time.monotonic() + limit_s, running
    while waiting and time.monotonic() < limit:
        time.sleep(_POLL_S)
        waiting = [mover for mover in waiting if waits(mover)]
    reports = [each for mover in running for each in mover.client.moves[report][before[id(mover)] :]]
    late = [f"{mover.client.name} has not {report} within {limit_s:.0f} s" for mover in waiting]
    began = [each for mover in running for each in mover.client.moves["began"][begun[id(mover)] :]]
    return Moved(reports, late, began)
