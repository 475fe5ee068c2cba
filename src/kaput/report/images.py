"""The timeline as an image: SVG, or PNG at twice the size, made by vl-convert without a browser.

For several runs: a dot plot of each figure that differs, then the timelines on a common clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from kaput.errors import UsageError
from kaput.evidence.findings import Findings
from kaput.evidence.folder import RunFolder
from kaput.report.charts.lines import DrawnRow, steps
from kaput.report.charts.parts import IMAGE_PX
from kaput.report.charts.rows import data_of, timeline_rows
from kaput.report.charts.standalone import dot_plots
from kaput.report.comparison import Entry, compare
from kaput.report.comparison_charts import drawn_runs
from kaput.report.sections import JudgedRun
from kaput.report.sections.summary import head
from kaput.report.timeline.reading import TimelineData, read_timeline

_TEXT = "#1c2430"
_DOTS_PX = IMAGE_PX - 60  # the axis of dot plots is wider
Runs = Sequence[tuple[RunFolder, Findings]]


def to_svg(runs: Runs, entries: Sequence[Entry] = ()) -> str:
    """As SVG. `entries`: the same runs, compared, if several. Raises UsageError without a timeline."""
    from vl_convert import vegalite_to_svg

    return str(vegalite_to_svg(_image(runs, entries)))


def to_png(runs: Runs, entries: Sequence[Entry] = ()) -> bytes:
    """The image as PNG. Raises UsageError if no run has a timeline."""
    from vl_convert import vegalite_to_png

    return bytes(vegalite_to_png(_image(runs, entries), scale=2))


def _image(runs: Runs, entries: Sequence[Entry]) -> dict[str, Any]:
    return _of_several(runs, entries) if len(runs) > 1 else _of_one(*runs[0])


def _of_one(folder: RunFolder, findings: Findings) -> dict[str, Any]:
    timeline = read_timeline(folder, findings)
    if timeline is None:
        raise _no_timeline([folder])
    top = head(JudgedRun(findings))
    rows = timeline_rows(timeline)
    subtitle = [top.done, "seconds since the load began"]
    return _joined(f"{top.verdict}: {top.name}", subtitle, [_titled(row) for row in rows], [(timeline, rows)])


def _of_several(runs: Runs, entries: Sequence[Entry]) -> dict[str, Any]:
    found = drawn_runs(runs, entries)
    if not found:
        raise _no_timeline([folder for folder, _ in runs])
    charts = [plot.chart.properties(width=_DOTS_PX, title=_title(plot.title)) for plot in dot_plots(entries)]
    for run in found:
        charts += [_titled(row, f"{run.label} ({run.findings.verdict}): ") for row in run.rows]
    drawn = [(run.timeline, run.rows) for run in found]
    return _joined(compare(entries).title, ["seconds since the first fault took effect"], charts, drawn)


def _no_timeline(folders: Sequence[RunFolder]) -> UsageError:
    paths = " ".join(str(folder.path) for folder in folders)
    return UsageError(
        f"{paths}: no timeline in analysis/ (or an older kaput's); run `kaput analyze {paths}` first"
    )


def _joined(
    title: str,
    subtitle: list[str],
    charts: Sequence[alt.LayerChart],
    drawn: Sequence[tuple[TimelineData, Sequence[DrawnRow]]],
) -> dict[str, Any]:
    heading = alt.TitleParams(
        title, subtitle=subtitle, anchor="start", fontSize=16, subtitleFontSize=12, offset=12
    )
    chart = alt.vconcat(*charts, spacing=10, title=heading, background="white", padding=16).configure(
        font="Helvetica, Arial, sans-serif"
    )
    spec: dict[str, Any] = chart.configure_view(stroke=None).to_dict(validate=False)
    data = spec.get("datasets", {})
    for timeline, rows in drawn:
        data |= {f"{timeline.key}steps": steps(timeline.overview), **data_of(timeline, rows)}
    return spec | {"datasets": data}


def _titled(row: DrawnRow, before: str = "") -> alt.LayerChart:
    chart: alt.LayerChart = row.chart.properties(width=IMAGE_PX, title=_title(before + row.title))
    return chart


def _title(text: str) -> alt.TitleParams:
    return alt.TitleParams(text, anchor="start", fontSize=12, color=_TEXT, offset=2)
