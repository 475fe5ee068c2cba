"""The report page of a run (its report.html, or made from its findings if there is none), comparisons, and
the data of a replay: the timeline, in one document of bounded size. Times are seconds since the load began.

Pages made here are cached in memory and never written: viewing runs does not change them, and needs no
write permission.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from functools import cache
from typing import Any

from kaput.dashboard.pages import address
from kaput.dashboard.safe_files import Runs
from kaput.dashboard.watching.reader import verdict_of
from kaput.errors import KaputError
from kaput.evidence.findings import Findings
from kaput.evidence.findings_file import read_findings
from kaput.evidence.folder import RunFolder
from kaput.report.document import Timelines
from kaput.report.timeline.reading import TimelineData, read_timeline

_CACHED = 8  # pages of a megabyte or two
READ_BY_PATH = ("manifest.json", "scenario.yaml", "findings.json", "analysis")


class Reports:
    """The pages of `runs`. Thread-safe; one page is made at a time."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._making = threading.Lock()
        self._made: OrderedDict[tuple[str, int], bytes] = OrderedDict()

    def page(self, name: str) -> bytes | None:
        """The page of a judged run, else None. Raises OSError, UsageError if the run is damaged."""
        judged_ns = self._runs.changed_ns(name, "findings.json")
        if judged_ns is None:
            return None
        written_ns = self._runs.changed_ns(name, "report.html")
        if written_ns is not None and written_ns >= judged_ns:
            return self._runs.read(name, "report.html")
        with self._making:
            key = name, judged_ns
            if key not in self._made:
                self._made[key] = self._make(name)
                while len(self._made) > _CACHED:
                    self._made.popitem(last=False)
            return self._made[key]

    def _make(self, name: str) -> bytes:
        from kaput.report.run_report import to_html

        return to_html(*self._read(name)).encode()

    def comparison(self, names: Sequence[str]) -> bytes:
        """The page of several judged runs. Raises OSError, UsageError if one is damaged or not judged."""
        from kaput.report.comparison import Entry
        from kaput.report.comparison_report import to_html

        with self._making:
            runs = [self._read(name) for name in names]
            # Each run is its own variant, so that runs of one scenario are compared and not averaged.
            entries = [
                Entry(name, name, findings.run.scenario, findings.run.varied, findings)
                for name, (_, findings) in zip(names, runs, strict=True)
            ]
            links = [("All runs", "/"), *((name, address(name)) for name in names)]
            return to_html(runs, entries, links=links).encode()

    def _read(self, name: str) -> tuple[RunFolder, Findings]:
        for part in READ_BY_PATH:
            self._runs.check(name, part)
        folder = self._runs.folder(name)
        return folder, read_findings(folder.findings_path)


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
        "rows": [
            [row["s"], *(row[count] for count in _COUNTS), row["ack_p50_ms"], row["ack_p99_ms"]]
            for row in timeline.fine.rows
        ],
        "total": findings.totals.sent,
        "bars": {
            name: [bar._asdict() for bar in bars[:MOST_BARS]]
            for name, bars in {
                "faults": timeline.faults,
                "leaders": timeline.leaders,
                "isrs": timeline.isrs,
            }.items()
        },
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


def _lags(timeline: TimelineData) -> dict[str, list[tuple[float, int]]]:
    """Samples of each group's lag: (seconds, lag)."""
    found: dict[str, list[tuple[float, int]]] = {}
    for lag in timeline.lag:
        found.setdefault(lag.group, []).append((lag.at, lag.lag))
    return {group: moments[:: len(moments) // _MOST_LAGS + 1] for group, moments in found.items()}
