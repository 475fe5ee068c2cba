"""The report of several runs, or of the repetitions of one: drawn as text, Markdown or a page."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from kaput.evidence.findings import Findings
from kaput.evidence.folder import RunFolder
from kaput.report.comparison import Entry, compare
from kaput.report.document import Document, Head, Section
from kaput.report.render import terminal
from kaput.report.sections import compared

_FOOT = "Each run's own page, with its examples and its proof, is report.html in its folder. Works offline."


def to_text(entries: Sequence[Entry], width: int | None = None, columns: Sequence[str] = ()) -> Text:
    """The table, and for repetitions their statistics. `width`: of the terminal; a table that is too wide is
    turned over. `columns`: the names of those to be shown.
    """
    return terminal.render(Document(Head(""), _tables(entries, columns)), width)


def overview(
    entries: Sequence[Entry], paths: Sequence[str], width: int | None = None, columns: Sequence[str] = ()
) -> Text:
    """The same, then which runs to look at, and where: `paths` are those of the first runs' reports, none if
    these are printed anyway.
    """
    text = to_text(entries, width, columns)
    if not paths:
        return text
    notable = compared.notable(entries)
    sections = [*([notable] if notable else []), compared.reports(entries, paths)]
    # The width is left to the terminal: a path must not be turned over.
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
    """The page. `entries`: the same runs as a comparison has them; `links`: text and address, for its top."""
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
