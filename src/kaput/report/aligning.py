"""Courses of several runs on one clock, which is 0 when the first fault of each took hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kaput.report.bars import Bar
from kaput.report.course import Course, Steps


def aligned(courses: Sequence[Course]) -> list[Course]:
    """All from the earliest begin to the latest end. A run without a fault begins at 0."""
    zeros = [_first_fault(course) for course in courses]
    begin = min((course.begin_s - zero for course, zero in zip(courses, zeros, strict=True)), default=0.0)
    end = max((course.end_s - zero for course, zero in zip(courses, zeros, strict=True)), default=1.0)
    return [
        _moved(course, zero, begin, end, f"{number}-")
        for number, (course, zero) in enumerate(zip(courses, zeros, strict=True))
    ]


def _first_fault(course: Course) -> float:
    return min((bar.begin for bar in course.faults if bar.kind == "fault"), default=0.0)


def _moved(course: Course, zero: float, begin: float, end: float, key: str) -> Course:
    return replace(
        course,
        key=key,
        began_ns=course.began_ns + round(zero * 1e9),
        begin_s=round(begin, 3),
        end_s=round(end, 3),
        fine=_steps(course.fine, zero),
        overview=_steps(course.overview, zero),
        table=_steps(course.table, zero),
        faults=_bars(course.faults, zero),
        leaders=_bars(course.leaders, zero),
        isrs=_bars(course.isrs, zero),
        owners=_bars(course.owners, zero),
        lag=[point._replace(at=round(point.at - zero, 3)) for point in course.lag],
        marks=[mark._replace(at=round(mark.at - zero, 3)) for mark in course.marks],
    )


def _steps(steps: Steps, zero: float) -> Steps:
    return steps._replace(rows=[{**row, "s": round((row["s"] or 0.0) - zero, 3)} for row in steps.rows])


def _bars(found: Sequence[Bar], zero: float) -> list[Bar]:
    return [bar._replace(begin=round(bar.begin - zero, 3), end=round(bar.end - zero, 3)) for bar in found]
