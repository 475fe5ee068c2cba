"""The report of several runs, or of the repetitions of one: drawn as text, Markdown or a page."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from kaput.evidence.findings import Findings
from kaput.evidence.folder import RunFolder
from kaput.report.comparison import Comparison, Entry, compare
from kaput.report.document import Document, Head
from kaput.report.render import terminal
from kaput.report.sections import compared

_FOOT = "Each run's own page, with its examples and its proof, is report.html in its folder. Works offline."


def to_text(comparison: Comparison, width: int | None = None) -> Text:
    """A line for each run. `width`: of the terminal; a table that is too wide is turned over."""
    return terminal.render(Document(Head(""), [compared.table(comparison)]), width)


def to_markdown(comparison: Comparison) -> str:
    """A table with every figure, also those that are the same in all runs."""
    from kaput.report.render import markdown

    return markdown.render(Document(Head(""), [compared.table(comparison, every=True)]))


def to_html(
    runs: Sequence[tuple[RunFolder, Findings]],
    entries: Sequence[Entry],
    links: Sequence[tuple[str, str]] = (),
) -> str:
    """The page. `entries`: the same runs as a comparison has them; `links`: text and address, for its top."""
    from kaput.report.render import html
    from kaput.report.sections import compared_charts

    comparison = compare(entries)
    judged = [findings for _, findings in runs]
    sections = [
        compared.table(comparison),
        *compared_charts.sections(runs, entries),
        compared.folders([folder.path for folder, _ in runs]),
    ]
    return html.render(Document(compared.head(comparison, judged), sections, _FOOT, links))


def statistics_text(findings: Sequence[Findings]) -> Text:
    """Mean, minimum, maximum and 95 % interval of each figure over repetitions of one scenario."""
    return terminal.render(Document(Head(""), [compared.statistics(findings)]))
