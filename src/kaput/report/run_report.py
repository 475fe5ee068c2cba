"""The report of one run: as text, Markdown or an HTML page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rich.text import Text

from kaput.errors import KaputError
from kaput.evidence.findings import Findings
from kaput.evidence.folder import RunFolder
from kaput.printable import printable
from kaput.report.document import Document, Section
from kaput.report.render import terminal
from kaput.report.sections import (
    JudgedRun,
    availability,
    clients,
    fates,
    faults,
    groups,
    kept,
    leaders,
    mirrors,
    performance,
    plan,
    published,
    rerun,
    resized,
    summary,
    transactions,
)
from kaput.report.sections.summary import head
from kaput.scenario.model import Scenario

# In the order in which they are shown.
SECTIONS: tuple[Callable[[JudgedRun], Section | None], ...] = (
    summary.reasons,
    summary.expectations,
    availability.section,
    faults.section,
    leaders.section,
    fates.fates,
    kept.section,
    mirrors.section,
    plan.section,
    fates.anomalies,
    groups.section,
    transactions.section,
    resized.section,
    performance.rates,
    performance.latency,
    clients.versions,
    clients.errors,
    published.section,
    rerun.configuration,
    rerun.rerun,
)

_FOOT = (
    "Every number on this page is in the run folder: in findings.json, analysis/, scenario.yaml or "
    "manifest.json. Point at a dotted word to see its definition; kaput docs glossary has all. Works offline."
)

_TERMS = "Terms such as unseen, redelivered or standstill are explained in report.html and by kaput docs."


def to_text(findings: Findings, folder: Path | str, scenario: Scenario | None = None) -> Text:
    """The report for terminals and pipes. `folder` is named at the end."""
    foot = f"{_TERMS}\nRun folder: {printable(str(folder))}"
    return terminal.render(document(JudgedRun(findings, scenario), foot))


def to_markdown(findings: Findings, scenario: Scenario | None = None) -> str:
    from kaput.report.render import markdown

    return markdown.render(document(JudgedRun(findings, scenario)))


def to_html(folder: RunFolder, findings: Findings) -> str:
    """The report as report.html: a page that loads nothing from the network."""
    from kaput.report.render import html
    from kaput.report.sections import timeline
    from kaput.report.timeline.reading import manifest_of, read_timeline

    run = JudgedRun(findings, scenario_of(folder), manifest_of(folder))
    return html.render(document(run, _FOOT, timeline.section(read_timeline(folder, findings))))


def document(run: JudgedRun, foot: str = "", *first: Section) -> Document:
    """The document of a run: the sections in `first`, then every section that has something to show."""
    found = (make(run) for make in SECTIONS)
    return Document(head(run), [*first, *(section for section in found if section is not None)], foot)


def scenario_of(folder: RunFolder) -> Scenario | None:
    """The resolved scenario of a run; None if it cannot be read."""
    from kaput.scenario.loader import read_resolved

    try:
        return read_resolved(folder.scenario_path) if folder.scenario_path.exists() else None
    except (KaputError, OSError):
        return None
