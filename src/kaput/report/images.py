"""The timeline as one image: SVG, or PNG of twice the size, made by vl-convert without a browser."""

from __future__ import annotations

import altair as alt

from kaput.errors import UsageError
from kaput.evidence.findings import Findings
from kaput.evidence.folder import RunFolder
from kaput.report.charts import Row, data_of, steps, timeline
from kaput.report.course import read_course
from kaput.report.drawing import IMAGE_PX
from kaput.report.headline import headline
from kaput.report.manifest import manifest_of

_TEXT = "#1c2430"


def to_svg(folder: RunFolder, findings: Findings) -> str:
    """The image's text. Raises UsageError where the run has no timeline."""
    import vl_convert

    svg: str = vl_convert.vegalite_to_svg(_image(folder, findings))
    return svg


def to_png(folder: RunFolder, findings: Findings) -> bytes:
    """The image's bytes. Raises UsageError where the run has no timeline."""
    import vl_convert

    png: bytes = vl_convert.vegalite_to_png(_image(folder, findings), scale=2)
    return png


def _image(folder: RunFolder, findings: Findings) -> dict[str, object]:
    course = read_course(folder, findings, manifest_of(folder))
    if course is None:
        raise UsageError(
            f"{folder.path}: no timeline in analysis/ (an older kaput's); "
            f"run `kaput analyze {folder.path}` first"
        )
    head = headline(findings)
    title = alt.TitleParams(
        f"{head.verdict}: {findings.run.scenario}",
        subtitle=[head.summary, "seconds since the load began"],
        anchor="start",
        fontSize=16,
        subtitleFontSize=12,
        offset=12,
    )
    rows = timeline(course)
    charts = [_titled(row).properties(width=IMAGE_PX) for row in rows]
    chart = alt.vconcat(*charts, spacing=10, title=title, background="white", padding=16).configure(
        font="Helvetica, Arial, sans-serif"
    )
    spec: dict[str, object] = chart.configure_view(stroke=None).to_dict(validate=False)
    return spec | {"datasets": {"steps": steps(course), **data_of(course, rows)}}


def _titled(row: Row) -> alt.LayerChart:
    title = alt.TitleParams(row.title, anchor="start", fontSize=12, color=_TEXT, offset=2)
    return row.chart.properties(title=title)
