"""Aligns timelines of several runs: 0 is when the first fault of each run took effect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kaput.report.timeline.reading import StepFigures, TimelineData

_MOMENTS = {"begin", "end", "at"}  # fields of bars, marks and samples that hold seconds


def aligned(timelines: Sequence[TimelineData]) -> list[TimelineData]:
    """The timelines with a common range, from the earliest begin to the latest end. A run without a fault is
    not shifted.
    """
    zeros = [_first_fault(timeline) for timeline in timelines]
    begin = min(
        (timeline.begin_s - zero for timeline, zero in zip(timelines, zeros, strict=True)), default=0.0
    )
    end = max((timeline.end_s - zero for timeline, zero in zip(timelines, zeros, strict=True)), default=1.0)
    return [
        _shifted(timeline, zero, begin, end, f"{number}-")
        for number, (timeline, zero) in enumerate(zip(timelines, zeros, strict=True))
    ]


def _first_fault(timeline: TimelineData) -> float:
    return min((bar.begin for bar in timeline.faults if bar.kind == "fault"), default=0.0)


def _shifted(timeline: TimelineData, zero: float, begin: float, end: float, key: str) -> TimelineData:
    shifted = {name: _earlier(value, zero) for name, value in vars(timeline).items()}
    began_ns = timeline.began_ns + round(zero * 1e9)
    return TimelineData(
        **{**shifted, "key": key, "began_ns": began_ns, "begin_s": round(begin, 3), "end_s": round(end, 3)}
    )


def _earlier(value: Any, by: float) -> Any:
    """Steps, bars, marks or samples shifted earlier by `by` seconds; other values unchanged."""
    if isinstance(value, StepFigures):
        return value._replace(rows=[{**row, "s": round((row["s"] or 0.0) - by, 3)} for row in value.rows])
    if isinstance(value, list):
        return [
            one._replace(**{n: round(getattr(one, n) - by, 3) for n in _MOMENTS & {*one._fields}})
            for one in value
        ]
    return value
