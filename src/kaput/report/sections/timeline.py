"""The timeline section of pages: charts with a common time axis, and the same figures as tables."""

from __future__ import annotations

from altair.utils import schemapi

from kaput.report.charts.lines import Scales, cluster_rates, latency, live_rates
from kaput.report.charts.rows import page_data, timeline_rows
from kaput.report.document import Block, Folded, Paragraph, RunCharts, Section, Table, Term, Timelines, number
from kaput.report.timeline.reading import COUNTS, LATENCIES, StepFigures, TimelineData

_MOST_EVENTS = 300
_MOST_WINDOWS = 4
_COLUMNS = {
    "sent": "sent",
    "acked": "acknowledged",
    "failed": "failed",
    "unknown": "unknown",
    "lost": "lost",
    "delivered": "delivered to all groups",
    "ack_p50_ms": "ack p50 ms",
    "ack_p99_ms": "ack p99 ms",
    "ack_max_ms": "ack max ms",
    "end_to_end_p50_ms": "delivery p50 ms",
    "end_to_end_p99_ms": "delivery p99 ms",
    "end_to_end_max_ms": "delivery max ms",
}
MARKS = (
    "Red bands: a fault was active. Gray: the ",
    Term("drain"),
    ". Solid vertical lines: elections; dotted: changes of the in-sync replicas; dashed: rebalances.",
)


def section(timeline: TimelineData | None) -> Section:
    """Charts and tables; without a timeline, a note on how to make one."""
    if timeline is None:
        missing = "No timeline: analysis/ has none, or an older kaput wrote it. Run `kaput analyze`."
        return Section("Timeline", [Paragraph(missing, "note")], key="timeline")
    blocks: list[Block] = [
        Paragraph(("Seconds since the load began. ", *MARKS), "lead"),
        charts(timeline),
        _steps(timeline),
        _events(timeline),
    ]
    return Section("Timeline", blocks, key="timeline")


def charts(timeline: TimelineData) -> Timelines:
    """All charts of a timeline."""
    rows = timeline_rows(timeline)
    drawn = RunCharts(rows, page_data(timeline, rows))
    return Timelines([drawn], timeline.begin_s, timeline.end_s, _windows(timeline))


def live_charts() -> Timelines:
    """Charts of rates and latencies of a run in progress; the page receives the data as it arrives."""
    step = dict.fromkeys(("s", *COUNTS), 0.0) | dict.fromkeys(LATENCIES)
    steps = StepFigures(1.0, [step])
    timeline = TimelineData(began_ns=0, begin_s=0.0, end_s=30.0, fine=steps, overview=steps, table=steps)
    with schemapi.debug_mode(False):
        rows = [live_rates(timeline), latency(timeline, "ack", Scales(None, {}))]
        drawn = RunCharts(rows, page_data(timeline, rows))
    return Timelines([drawn], timeline.begin_s, timeline.end_s)


def cluster_charts(last_s: float) -> Timelines:
    """A cluster's rates in the last `last_s` seconds (now is 0); the page gets data as it arrives."""
    step = dict.fromkeys(("s", *COUNTS), 0.0) | dict.fromkeys(LATENCIES)
    steps = StepFigures(1.0, [step])
    timeline = TimelineData(began_ns=0, begin_s=-last_s, end_s=0.0, fine=steps, overview=steps, table=steps)
    with schemapi.debug_mode(False):
        rows = [cluster_rates(timeline)]
        drawn = RunCharts(rows, page_data(timeline, rows))
    return Timelines([drawn], timeline.begin_s, timeline.end_s)


def _windows(timeline: TimelineData) -> list[tuple[str, float, float]]:
    """Zoom windows: each fault with a margin around it."""
    found = []
    for bar in [bar for bar in timeline.faults if bar.kind == "fault"][:_MOST_WINDOWS]:
        margin = max(1.0, (bar.end - bar.begin) * 0.15)
        begin, end = max(0.0, bar.begin - margin), min(timeline.end_s, bar.end + margin)
        found.append((bar.text, round(begin, 3), round(end, 3)))
    return found


def _steps(timeline: TimelineData) -> Folded:
    """The table of steps, without empty columns."""
    steps = timeline.table.rows
    names = [name for name in _COLUMNS if any(step[name] for step in steps)]
    rows = [[number(step["s"]), *(number(step[name]) for name in names)] for step in steps]
    sums = ["" if n.endswith("_ms") else number(sum(step[n] or 0 for step in steps)) for n in names]
    table = Table(["from (s)", *(_COLUMNS[name] for name in names)], rows, sums=["sum", *sums])
    title = f"The timeline as a table ({len(rows)} steps of {timeline.table.width_s:g} s)"
    return Folded(title, [table], in_text=False)


def _events(timeline: TimelineData) -> Folded:
    marks = timeline.marks
    rows = [[f"{mark.at:.3f}", mark.kind, mark.text] for mark in marks[:_MOST_EVENTS]]
    more = f" of {len(marks)}" if len(marks) > len(rows) else ""
    table = Table(["at (s)", "kind", "event"], rows, "rll")
    return Folded(f"Events as a table ({len(rows)}{more})", [table], in_text=False)
