"""The timeline as one image: SVG, or PNG of twice the size, made by vl-convert without a browser.

Of several runs: each figure in which they differ as a strip of points, then the timelines on one clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import altair as alt

from kaput.errors import UsageError
from kaput.evidence.findings import Findings
from kaput.evidence.folder import RunFolder
from kaput.report.charts import data_of, timeline
from kaput.report.compared_page import timelines
from kaput.report.comparison import Entry, compare
from kaput.report.course import Course, read_course
from kaput.report.curves import Row, steps
from kaput.report.drawing import IMAGE_PX
from kaput.report.headline import headline
from kaput.report.manifest import manifest_of
from kaput.report.strips import strips

_TEXT = "#1c2430"
_STRIP_PX = IMAGE_PX - 60  # their axis is wider
Runs = Sequence[tuple[RunFolder, Findings]]


def to_svg(runs: Runs, entries: Sequence[Entry] = ()) -> str:
    """The image's text. `entries`: several runs as a comparison has them. Raises UsageError where there is no
    timeline.
    """
    import vl_convert

    svg: str = vl_convert.vegalite_to_svg(_image(runs, entries))
    return svg


def to_png(runs: Runs, entries: Sequence[Entry] = ()) -> bytes:
    """The image's bytes. Raises UsageError where there is no timeline."""
    import vl_convert

    png: bytes = vl_convert.vegalite_to_png(_image(runs, entries), scale=2)
    return png


def _image(runs: Runs, entries: Sequence[Entry]) -> dict[str, Any]:
    return _of_several(runs, entries) if len(runs) > 1 else _of_one(*runs[0])


def _of_one(folder: RunFolder, findings: Findings) -> dict[str, Any]:
    course = read_course(folder, findings, manifest_of(folder))
    if course is None:
        raise _without([folder])
    head = headline(findings)
    subtitle = [head.summary, "seconds since the load began"]
    rows = timeline(course)
    title = f"{head.verdict}: {findings.run.scenario}"
    return _put_together(title, subtitle, [_titled(row) for row in rows], [(course, rows)])


def _of_several(runs: Runs, entries: Sequence[Entry]) -> dict[str, Any]:
    found = timelines(runs, entries)
    if not found:
        raise _without([folder for folder, _ in runs])
    charts = [strip.chart.properties(width=_STRIP_PX, title=_title(strip.title)) for strip in strips(entries)]
    for _, run in found:
        charts += [_titled(row, f"{run.label} ({run.verdict}): ") for row in run.rows]
    drawn = [(course, run.rows) for course, run in found]
    return _put_together(compare(entries).title, ["seconds since the first fault took hold"], charts, drawn)


def _without(folders: Sequence[RunFolder]) -> UsageError:
    paths = " ".join(str(folder.path) for folder in folders)
    return UsageError(
        f"{paths}: no timeline in analysis/ (an older kaput's); run `kaput analyze {paths}` first"
    )


def _put_together(
    title: str,
    subtitle: list[str],
    charts: Sequence[alt.LayerChart],
    drawn: Sequence[tuple[Course, Sequence[Row]]],
) -> dict[str, Any]:
    said = alt.TitleParams(
        title, subtitle=subtitle, anchor="start", fontSize=16, subtitleFontSize=12, offset=12
    )
    chart = alt.vconcat(*charts, spacing=10, title=said, background="white", padding=16).configure(
        font="Helvetica, Arial, sans-serif"
    )
    spec: dict[str, Any] = chart.configure_view(stroke=None).to_dict(validate=False)
    return spec | {"datasets": {**spec.get("datasets", {}), **dict(_data(drawn))}}


def _data(drawn: Sequence[tuple[Course, Sequence[Row]]]) -> Iterator[tuple[str, Any]]:
    for course, rows in drawn:
        yield f"{course.key}steps", steps(course)
        yield from data_of(course, rows).items()


def _titled(row: Row, before: str = "") -> alt.LayerChart:
    chart: alt.LayerChart = row.chart.properties(width=IMAGE_PX, title=_title(before + row.title))
    return chart


def _title(text: str) -> alt.TitleParams:
    return alt.TitleParams(text, anchor="start", fontSize=12, color=_TEXT, offset=2)
