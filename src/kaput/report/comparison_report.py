"""The report of several runs, or of repetitions of one: as text, Markdown or an HTML page."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from kaput.evidence.findings import Findings
from kaput.evidence.folder import RunFolder
from kaput.report.comparison import Entry, compare
from kaput.report.document import Document, Head, Section
from kaput.report.render import terminal
from kaput.report.sections import compared

_FOOT = "Each run's own page, with examples and proof, is report.html in its run folder. Works offline."


def to_text(entries: Sequence[Entry], width: int | None = None, columns: Sequence[str] = ()) -> Text:
    """The table, and statistics for repetitions. `width`: of the terminal; a table that is too wide is
    transposed. `columns`: the names of the columns to show.
    """
    return terminal.render(Document(Head(""), _tables(entries, columns)), width)


def overview(
    entries: Sequence[Entry], paths: Sequence[str], width: int | None = None, columns: Sequence[str] = ()
) -> Text:
    """The text, then which runs deserve a look and where their reports are. `paths`: of the reports of the
    first runs; empty if the reports are printed anyway.
    """
    text = to_text(entries, width, columns)
    if not paths:
        return text
    notable = compared.notable(entries)
    sections = [*([notable] if notable else []), compared.reports(entries, paths)]
    # No width, so that the table of paths is never transposed.
    return text.append("\n").append_text(terminal.render(Document(Head(""), sections)))


def to_markdown(entries: Sequence[Entry], columns: Sequence[str] = ()) -> str:
    """The same tables as in text."""
    from kaput.report.render import markdown

    return markdown.render(Document(Head(""), _tables(entries, columns)))


def to_html(
    runs: Sequence[tuple[RunFolder, Findings]],
    entries: Sequence[Entry],
    columns: Sequence[str] = (),
    links: Sequence[tuple[str, str]] = (),
) -> str:
    """The HTML page. `entries`: the same runs as entries of a comparison; `links`: (text, address) pairs for
    the top of the page.
    """
    from kaput.report.render import html
    from kaput.report.sections import compared_charts

    sections = [
        *_tables(entries, columns),
        *compared_charts.sections(runs, entries),
        compared.folders([folder.path for folder, _ in runs]),
    ]
    judged = [findings for _, findings in runs]
    return html.render(Document(compared.head(compare(entries), judged), sections, _FOOT, links))


def _tables(entries: Sequence[Entry], columns: Sequence[str]) -> list[Section]:
    statistics = compared.statistics(entries)
    table = compared.table(compare(entries, every=bool(columns)), columns)
    return [table, *([statistics] if statistics else [])]
