"""What a replay is played from: the course of a run that was judged, in one document of bounded size.

Seconds count from the begin of the load.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kaput.dashboard.reports import READ_BY_PATH
from kaput.dashboard.safe_files import Runs
from kaput.dashboard.watching.reader import verdict_of
from kaput.errors import KaputError
from kaput.evidence.findings import Findings
from kaput.evidence.findings_file import read_findings
from kaput.report.bars import Bar
from kaput.report.course import Course, read_course
from kaput.report.manifest import manifest_of

MOST_BARS = 5_000
_MOST_LAGS = 2_000  # moments
_COUNTS = ("sent", "acked", "failed", "unknown", "delivered")
_NO_COURSE = "the analysis of this run holds no timeline: kaput analyze {} makes one"


def course_of(runs: Runs, name: str) -> tuple[Course, Findings]:
    """The course of a run. Raises KaputError with a sentence where there is none, OSError."""
    for part in READ_BY_PATH:
        runs.check(name, part)
    folder = runs.folder(name)
    findings = read_findings(folder.findings_path)
    course = read_course(folder, findings, manifest_of(folder))
    if course is None:
        raise KaputError(_NO_COURSE.format(folder.path))
    return course, findings


def replay_of(runs: Runs, name: str) -> dict[str, Any]:
    """The document; `said` alone where there is nothing to be played."""
    try:
        course, findings = course_of(runs, name)
    except (KaputError, OSError) as error:
        return {"said": str(error)}
    return {
        "scenario": findings.run.scenario,
        "end": course.end_s,
        "width": course.fine.width_s,
        "rows": [_row(row) for row in course.fine.rows],
        "total": findings.totals.sent,
        "bars": {name: _bars(bars) for name, bars in _all_bars(course).items()},
        "lags": _lags(course),
        "first_fault": first_fault_s(course, findings),
        "verdict": verdict_of(findings),
    }


def first_fault_s(course: Course, findings: Findings) -> float:
    """When the first fault took effect; 0 of a run in which none did."""
    moments = [fault.effective_ns for fault in findings.faults if fault.effective_ns is not None]
    return (min(moments) - course.began_ns) / 1e9 if moments else 0.0


def _row(row: Any) -> list[float | None]:
    return [row["s"], *(row[count] for count in _COUNTS), row["ack_p50_ms"], row["ack_p99_ms"]]


def _all_bars(course: Course) -> dict[str, Sequence[Bar]]:
    return {"faults": course.faults, "leaders": course.leaders, "isrs": course.isrs}


def _bars(bars: Sequence[Bar]) -> list[dict[str, Any]]:
    return [bar._asdict() for bar in bars[:MOST_BARS]]


def _lags(course: Course) -> dict[str, list[tuple[float, int]]]:
    """Of each group its lag, at the moments of its samples."""
    found: dict[str, list[tuple[float, int]]] = {}
    for lag in course.lag:
        found.setdefault(lag.group, []).append((lag.at, lag.lag))
    return {group: moments[:: len(moments) // _MOST_LAGS + 1] for group, moments in found.items()}
