"""What a replay is played from: the course of a run that was judged, in one document of bounded size.

Seconds count from the begin of the load. Lag comes from the samples, everything else from the analysis.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kaput.dashboard.beneath import Runs
from kaput.dashboard.reports import READ_BY_PATH
from kaput.errors import KaputError
from kaput.evidence.findings import Findings, read_findings
from kaput.evidence.folder import RunFolder
from kaput.report.course import Bar, Course, read_course
from kaput.report.manifest import manifest_of
from kaput.report.sentences import verdict_sentence

MOST_BARS = 5_000
_MOST_LAGS = 2_000  # moments
_MOST_SAMPLES = 5_000_000
_COUNTS = ("sent", "acked", "failed", "unknown", "delivered")
_NO_COURSE = "the analysis of this run holds no timeline: kaput analyze {} makes one"


def course_of(runs: Runs, name: str) -> tuple[Course, Findings]:
    """The course of a run. Raises KaputError with a sentence where there is none, OSError."""
    for part in (*READ_BY_PATH, "evidence/samples"):
        runs.check(name, *part.split("/"))
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
    except KaputError as error:
        return {"said": str(error)}
    return {
        "scenario": findings.run.scenario,
        "end": course.end_s,
        "width": course.fine.width_s,
        "rows": [_row(row) for row in course.fine.rows],
        "total": findings.totals.sent,
        "bars": {name: _bars(bars) for name, bars in _all_bars(course).items()},
        "lags": _lags(runs.folder(name), course),
        "first_fault": first_fault_s(course, findings),
        "verdict": {"verdict": findings.verdict, "said": verdict_sentence(findings)},
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


def _lags(folder: RunFolder, course: Course) -> dict[str, list[tuple[float, int]]]:
    """Of each group its lag over all partitions, at the moments of its samples."""
    found: dict[str, dict[int, int]] = {}
    for row in _samples(folder):
        if row["name"] == "lag":
            sums = found.setdefault(dict(row["labels"] or ()).get("group", ""), {})
            sums[row["at_ns"]] = sums.get(row["at_ns"], 0) + int(row["value"])
    return {group: _thinned(sums, course.began_ns) for group, sums in found.items()}


def _thinned(sums: dict[int, int], began_ns: int) -> list[tuple[float, int]]:
    every = len(sums) // _MOST_LAGS + 1
    return [(round((at_ns - began_ns) / 1e9, 2), lag) for at_ns, lag in sorted(sums.items())[::every]]


def _samples(folder: RunFolder) -> Iterator[dict[str, Any]]:
    """Rows of `samples`, where they can be read: a replay does without."""
    rows = 0
    for path in sorted(folder.table("samples").glob("*.parquet")):
        try:
            for batch in pq.ParquetFile(path).iter_batches(columns=["at_ns", "name", "labels", "value"]):
                rows += batch.num_rows
                if rows > _MOST_SAMPLES:
                    return
                yield from batch.to_pylist()
        except (OSError, ValueError, KeyError, pa.ArrowException):
            continue
