"""Timelines of several runs on one clock, which is 0 when the first fault of each took effect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kaput.report.timeline.bars import Bar
from kaput.report.timeline.reading import Steps, Timeline


def aligned(timelines: Sequence[Timeline]) -> list[Timeline]:
    """All from the earliest begin to the latest end. A run without a fault begins at 0."""
    zeros = [_first_fault(timeline) for timeline in timelines]
    begin = min(
        (timeline.begin_s - zero for timeline, zero in zip(timelines, zeros, strict=True)), default=0.0
    )
    end = max((timeline.end_s - zero for timeline, zero in zip(timelines, zeros, strict=True)), default=1.0)
    return [
        _shifted(timeline, zero, begin, end, f"{number}-")
        for number, (timeline, zero) in enumerate(zip(timelines, zeros, strict=True))
    ]


def _first_fault(timeline: Timeline) -> float:
    return min((bar.begin for bar in timeline.faults if bar.kind == "fault"), default=0.0)


def _shifted(timeline: Timeline, zero: float, begin: float, end: float, key: str) -> Timeline:
    return replace(
        timeline,
        key=key,
        began_ns=timeline.began_ns + round(zero * 1e9),
        begin_s=round(begin, 3),
        end_s=round(end, 3),
        fine=_steps(timeline.fine, zero),
        overview=_steps(timeline.overview, zero),
        table=_steps(timeline.table, zero),
        faults=_bars(timeline.faults, zero),
        leaders=_bars(timeline.leaders, zero),
        isrs=_bars(timeline.isrs, zero),
        owners=_bars(timeline.owners, zero),
        lag=[point._replace(at=round(point.at - zero, 3)) for point in timeline.lag],
        marks=[mark._replace(at=round(mark.at - zero, 3)) for mark in timeline.marks],
    )


def _steps(steps: Steps, zero: float) -> Steps:
    return steps._replace(rows=[{**row, "s": round((row["s"] or 0.0) - zero, 3)} for row in steps.rows])


def _bars(found: Sequence[Bar], zero: float) -> list[Bar]:
    return [bar._replace(begin=round(bar.begin - zero, 3), end=round(bar.end - zero, 3)) for bar in found]
