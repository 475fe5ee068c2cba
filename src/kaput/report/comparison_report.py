"""The report of several runs, or of repetitions of one: as text, Markdown or an HTML page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from rich.text import Text

from kaput.core import plural
from kaput.evidence.findings import Findings
from kaput.evidence.folder import RunFolder
from kaput.report.comparison import (
    FIGURES,
    Entry,
    RunColumn,
    RunsTable,
    chosen,
    compare,
    judged,
    unique_labels,
)
from kaput.report.document import NOTHING, Block, Bullets, Document, Head, Paragraph, Section, Table, number
from kaput.report.render import terminal
from kaput.report.sections.availability import load_warning
from kaput.report.sentences import verdict_sentence, verdict_word
from kaput.report.statistics import LEAST, summary_of

_MOST_WARNINGS = 5
_FOOT = "Each run's own page, with examples and proof, is report.html in its run folder. Works offline."


def to_text(entries: Sequence[Entry], width: int | None = None, columns: Sequence[str] = ()) -> Text:
    """The table, and statistics of repetitions; transposed if wider than `width`."""
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
    worth_a_look = notable(entries)
    rows = list(zip(unique_labels(entries), paths, strict=False))
    reports = Section("Reports", [Table(["run", "report"], rows, "ll")])
    sections = [*([worth_a_look] if worth_a_look else []), reports]
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
    answer: str = "",
) -> str:
    """The page. `entries`: the runs in a comparison; for its top: `links`, (text, address), and `answer`,
    what they show in a sentence.
    """
    from kaput.report import comparison_charts
    from kaput.report.render import html

    sections = [
        *_tables(entries, columns),
        *comparison_charts.sections(runs, entries),
        Section("The runs", [Bullets([str(folder.path) for folder, _ in runs])]),
    ]
    top = head(compare(entries), [findings for _, findings in runs])
    top = replace(top, answer=answer, outages=load_warnings(entries))
    return html.render(Document(top, sections, _FOOT, links))


def load_warnings(entries: Sequence[Entry]) -> list[str]:
    """A sentence for each of the first runs whose load fell short."""
    found = [
        f"{label}: {sentence}"
        for label, entry in zip(unique_labels(entries), entries, strict=True)
        if entry.findings is not None
        for sentence in load_warning(entry.findings)
    ]
    more = [f"And {len(found) - _MOST_WARNINGS} more of these runs."] if len(found) > _MOST_WARNINGS else []
    return [*found[:_MOST_WARNINGS], *more]


def _tables(entries: Sequence[Entry], columns: Sequence[str]) -> list[Section]:
    over_runs = statistics(entries)
    return [table(compare(entries, every=bool(columns)), columns), *([over_runs] if over_runs else [])]


_VERDICTS = ("held", "inconclusive", "violated")  # from best to worst


def head(comparison: RunsTable, runs: Sequence[Findings]) -> Head:
    """The number of runs and verdicts; the tone is the worst verdict, or `loss` if all held and any lost."""
    worst = max((findings.verdict for findings in runs), key=_VERDICTS.index)
    tone = "loss" if worst == "held" and any(findings.lost for findings in runs) else worst
    return Head(f"{plural(len(runs), 'run')}: {_verdicts(runs)}", tone=tone, name=comparison.title)


def _verdicts(runs: Sequence[Findings]) -> str:
    counts = Counter((_VERDICTS.index(findings.verdict), verdict_word(findings)) for findings in runs)
    return ", ".join(f"{count} {word}" for (_, word), count in sorted(counts.items()))


def table(comparison: RunsTable, names: Sequence[str] = ()) -> Section:
    """A line for each run, or for each variant with repetitions. Figures that are the same in all lines are
    listed below the table, unless columns were chosen by name or there is only one line.
    """
    single = len(comparison.naming[0].cells) == 1
    figures = [column for column in comparison.figures if single or column.differs]
    shown = chosen(comparison, names) if names else [*comparison.naming, *figures]
    blocks: list[Block] = [_grid(shown)]
    if known := [column for column in shown if any(cell != NOTHING for cell in column.intervals)]:
        naming = [column for column in comparison.naming if column.names]
        intervals = [replace(column, cells=column.intervals) for column in known]
        blocks += [Paragraph("95 % intervals of the means (bootstrap)"), _grid([*naming, *intervals])]
    same = [
        f"{column.name} {column.cells[0]}"
        for column in comparison.figures
        if not names and column not in figures and column.cells[0] != NOTHING
    ]
    if same:
        blocks.append(Paragraph(f"The same in all: {', '.join(same)}", "fine"))
    return Section(comparison.title, blocks)


def _grid(columns: Sequence[RunColumn]) -> Table:
    rows = list(zip(*(column.cells for column in columns), strict=True))
    return Table([column.name for column in columns], rows, "".join("rl"[column.left] for column in columns))


def statistics(entries: Sequence[Entry]) -> Section | None:
    """A line for each figure; None unless there are several judged runs, all of one variant."""
    runs = judged(entries)
    if len(runs) < 2 or len({entry.variant for entry in entries if entry.findings is not None}) > 1:
        return None
    intervals = len(runs) >= LEAST
    rows = []
    for figure in FIGURES:
        cells = ["0", *[NOTHING] * 4]
        if found := summary_of(map(figure.of, runs)):
            cells = [str(found.n), *map(number, (found.mean, found.minimum, found.maximum)), found.interval]
        rows.append([figure.name, *cells][: 6 if intervals else 5])
    header = ["", "runs", "mean", "minimum", "maximum", *(["95 % interval"] if intervals else [])]
    more = f"With {LEAST} or more runs, a 95 % interval of the mean is shown as well."
    blocks: list[Block] = [Table(header, rows), *([] if intervals else [Paragraph(more, "fine")])]
    return Section(f"Statistics over {len(runs)} runs: {_verdicts(runs)}", blocks)


def notable(entries: Sequence[Entry]) -> Section | None:
    """A line for each run that did not hold or that lost messages."""
    lines = [
        f"{label}: {verdict_sentence(findings)}"
        for label, entry in zip(unique_labels(entries), entries, strict=True)
        if (findings := entry.findings) is not None and (findings.verdict != "held" or findings.lost)
    ]
    return Section("Runs that did not hold, or lost messages", [Bullets(lines)]) if lines else None
