"""The data of a replay: the timeline of a judged run, in one document of bounded size.

Times are seconds since the load began.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from kaput.dashboard.reports import READ_BY_PATH
from kaput.dashboard.safe_files import Runs
from kaput.dashboard.watching.reader import verdict_of
from kaput.errors import KaputError
from kaput.evidence.findings import Findings
from kaput.evidence.findings_file import read_findings
from kaput.report.document import Timelines
from kaput.report.timeline.bars import Bar
from kaput.report.timeline.reading import TimelineData, read_timeline

MOST_BARS = 5_000
CLUSTER_S = 300.0  # length of a cluster's timeline
_MOST_LAGS = 2_000  # samples of a group
_COUNTS = ("sent", "acked", "failed", "unknown", "delivered")
_NO_TIMELINE = "the analysis of this run has no timeline: kaput analyze {} makes one"


def timeline_of(runs: Runs, name: str) -> tuple[TimelineData, Findings]:
    """The timeline and findings of a run. Raises KaputError if it has no timeline, OSError."""
    for part in READ_BY_PATH:
        runs.check(name, part)
    folder = runs.folder(name)
    findings = read_findings(folder.findings_path)
    timeline = read_timeline(folder, findings)
    if timeline is None:
        raise KaputError(_NO_TIMELINE.format(folder.path))
    return timeline, findings


def replay_of(runs: Runs, name: str) -> dict[str, Any]:
    """The document; only `error` if there is nothing to play."""
    try:
        timeline, findings = timeline_of(runs, name)
    except (KaputError, OSError) as error:
        return {"error": str(error)}
    return {
        "scenario": findings.run.scenario,
        "end": timeline.end_s,
        "width": timeline.fine.width_s,
        "rows": [_row(row) for row in timeline.fine.rows],
        "total": findings.totals.sent,
        "bars": {name: _bars(bars) for name, bars in _all_bars(timeline).items()},
        "lags": _lags(timeline),
        "verdict": verdict_of(findings),
    }


def charts_of(runs: Runs, name: str) -> Timelines | None:
    """The charts of the run's report; None without a timeline (replay_of has the reason)."""
    from kaput.report.sections.timeline import charts

    try:
        return charts(timeline_of(runs, name)[0])
    except (KaputError, OSError):
        return None


@cache
def live_charts() -> Timelines:
    """The charts of live pages, without data, which arrives as events."""
    from kaput.report.sections import timeline

    return timeline.live_charts()


@cache
def cluster_charts() -> Timelines:
    """The chart of control rooms, without data, which arrives as events."""
    from kaput.report.sections import timeline

    return timeline.cluster_charts(CLUSTER_S)


def _row(row: Any) -> list[float | None]:
    return [row["s"], *(row[count] for count in _COUNTS), row["ack_p50_ms"], row["ack_p99_ms"]]


def _all_bars(timeline: TimelineData) -> dict[str, Sequence[Bar]]:
    return {"faults": timeline.faults, "leaders": timeline.leaders, "isrs": timeline.isrs}


def _bars(bars: Sequence[Bar]) -> list[dict[str, Any]]:
    return [bar._asdict() for bar in bars[:MOST_BARS]]


def _lags(timeline: TimelineData) -> dict[str, list[tuple[float, int]]]:
    """Samples of each group's lag: (seconds, lag)."""
    found: dict[str, list[tuple[float, int]]] = {}
    for lag in timeline.lag:
        found.setdefault(lag.group, []).append((lag.at, lag.lag))
    return {group: moments[:: len(moments) // _MOST_LAGS + 1] for group, moments in found.items()}
