"""Findings as the output of a notebook cell: the verdict, the timeline as an image, and the report as text.

Without scripts, which untrusted notebooks and notebook viewers remove.
"""

from __future__ import annotations

from base64 import b64encode
from html import escape

from kaput.errors import UsageError
from kaput.evidence.findings import Findings
from kaput.evidence.folder import RunFolder
from kaput.printable import printable
from kaput.report.run_report import scenario_of, to_text
from kaput.report.sections import JudgedRun
from kaput.report.sections.summary import head

_COLORS = {"held": "#1a7f37", "violated": "#b42318", "inconclusive": "#9a6700"}


def to_notebook(folder: RunFolder, findings: Findings) -> str:
    top = head(JudgedRun(findings))
    text = escape(to_text(findings, folder.path, scenario_of(folder)).plain)
    return (
        f'<p><b style="color: {_COLORS[findings.verdict]}">{escape(printable(top.verdict))}</b>: '
        f"{escape(printable(findings.run.scenario))}, {escape(printable(top.done))}</p>"
        f"{_timeline(folder, findings)}"
        f"<details><summary>The whole report</summary><pre>{text}</pre></details>"
    )


def _timeline(folder: RunFolder, findings: Findings) -> str:
    """The timeline as an image element; empty if the run has no timeline."""
    from kaput.report.images import to_svg

    try:
        svg = b64encode(to_svg([(folder, findings)]).encode()).decode()
    except UsageError:
        return ""
    return f'<img alt="Timeline of the run" style="max-width: 100%" src="data:image/svg+xml;base64,{svg}">'
