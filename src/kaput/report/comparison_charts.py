"""Charts of several runs for pages and images: a dot plot of each figure, and aligned timelines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from altair.utils import schemapi

from kaput.core import plural
from kaput.evidence.findings import Findings
from kaput.evidence.folder import RunFolder
from kaput.report.charts.lines import PEAK, DrawnRow, Scales, latency, rates, scales
from kaput.report.charts.parts import without_seconds
from kaput.report.charts.rows import faults, page_data
from kaput.report.charts.standalone import DotPlot, dot_plots
from kaput.report.comparison import Entry, unique_labels
from kaput.report.document import Block, Chart, NamedValues, Paragraph, RunCharts, Section, Timelines
from kaput.report.sections import JudgedRun
from kaput.report.sections.summary import faults_in_a_line
from kaput.report.sections.timeline import MARKS
from kaput.report.sentences import verdict_sentence
from kaput.report.timeline.reading import TimelineData, aligned, read_timeline

MOST_TIMELINES = 8
Runs = Sequence[tuple[RunFolder, Findings]]


@dataclass(frozen=True)
class DrawnRun:
    """One of several runs with the rows of its timeline. `label`: what distinguishes the run."""

    label: str
    findings: Findings
    timeline: TimelineData
    rows: Sequence[DrawnRow]


def sections(runs: Runs, entries: Sequence[Entry]) -> list[Section]:
    """Dot plots, if any figure differs, and timelines."""
    plots = [_chart(plot) for plot in dot_plots(entries)]
    about = "Circles: held; crosses: violated; triangles: inconclusive. The gray line is a variant's mean."
    dots = Section("Figures of every run", [Paragraph(about, "lead"), *plots], key="dots")
    return [*([dots] if plots else []), _timelines(runs, entries)]


def _chart(plot: DotPlot) -> Chart:
    about = f"{plot.title} of every run; the values are in the table below"
    remark = f"not measured in {plot.left_out}" if plot.left_out else ""
    spec = plot.chart.to_dict(validate=False)
    return Chart(plot.name, plot.title, about, lambda: spec, remark, NamedValues(plot.table))


def _timelines(runs: Runs, entries: Sequence[Entry]) -> Section:
    drawn = drawn_runs(runs, entries)
    blocks: list[Block] = []
    if drawn:
        scale = (
            " Rows of the same kind share one scale; acknowledgement peaks above "
            f"{PEAK} times the send rate are cut off."
        )
        first = drawn[0].timeline
        blocks = [
            Paragraph(("Seconds since the first fault took effect. ", *MARKS, scale), "lead"),
            Timelines([_run_charts(run) for run in drawn], first.begin_s, first.end_s),
        ]
    else:
        blocks = [Paragraph("No timelines: analysis/ has none. Run `kaput analyze`.", "note")]
    left_out = len(runs) - MOST_TIMELINES
    if left_out > 0:
        blocks.append(Paragraph(f"{plural(left_out, 'more run')} not drawn.", "fine"))
    return Section("Timelines, aligned at the first fault", blocks, key="timeline")


def _run_charts(run: DrawnRun) -> RunCharts:
    done = faults_in_a_line(JudgedRun(run.findings))
    text = " ".join([verdict_sentence(run.findings), *([f"{done}."] if done else [])])
    return RunCharts(run.rows, page_data(run.timeline, run.rows, run.label), run.label, text)


def drawn_runs(runs: Runs, entries: Sequence[Entry]) -> list[DrawnRun]:
    """The first runs that have a timeline, aligned at the first fault."""
    found: list[tuple[str, Findings, TimelineData]] = []
    for (folder, findings), label in zip(runs, unique_labels(entries), strict=True):
        timeline = read_timeline(folder, findings) if len(found) < MOST_TIMELINES else None
        found += [(label, findings, timeline)] if timeline else []
    timelines = aligned([timeline for _, _, timeline in found])
    heights = scales(timelines)
    return [
        DrawnRun(label, findings, timeline, _rows(timeline, heights))
        for timeline, (label, findings, _) in zip(timelines, found, strict=True)
    ]


def _rows(timeline: TimelineData, heights: Scales) -> list[DrawnRow]:
    with schemapi.debug_mode(False):
        above = (faults(timeline), rates(timeline, heights))
        return [
            *(replace(row, chart=without_seconds(row.chart)) for row in above),
            latency(timeline, "ack", heights),
        ]
