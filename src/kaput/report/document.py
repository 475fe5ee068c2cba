"""A report as data: a head, and sections of paragraphs, lists, tables and charts.

sections/ make them from findings, render/ draw any of them as text, Markdown or HTML; neither imports the
other. All text is plain: escaping is the renderers' part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

Phrase = str | tuple[str, ...]  # a text, or its parts where some are terms
Spec = Mapping[str, Any]  # a chart in Vega-Lite


class Term(str):
    """Text that the glossary explains under `word`: a page shows the explanation on hover."""

    word: str

    def __new__(cls, text: str, word: str = "") -> Term:
        made = super().__new__(cls, text)
        made.word = word or text
        return made


@dataclass(frozen=True)
class Paragraph:
    """`tone`: lead (an introduction), fine (small print), or note (a warning)."""

    text: Phrase
    tone: str = ""


@dataclass(frozen=True)
class Bullets:
    """A list."""

    items: Sequence[str]


@dataclass(frozen=True)
class NamedValues:
    """Names with values, and a remark for those that need one."""

    rows: Sequence[tuple[str, ...]]


@dataclass(frozen=True)
class Cell:
    """A cell with more than a text. `label`: what the count is called; `stories`: single cases behind it;
    `anchor`: a place that the `link` of another cell leads to.
    """

    text: str
    label: str = ""
    bad: bool = False
    stories: Sequence[str] = ()
    anchor: str = ""
    link: str = ""


@dataclass(frozen=True)
class Table:
    """`align`: l or r for each column, r for those after the last letter. `left_out`: so many rows are not
    shown. `stories`: whether text shows the first stories of a row.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str | Cell]]
    align: str = "l"
    sums: Sequence[str] = ()
    caption: Phrase = ""
    left_out: int = 0
    stories: bool = True


@dataclass(frozen=True)
class Code:
    """Commands."""

    text: str


@dataclass(frozen=True)
class Chart:
    """A chart of its own, for pages. `spec` makes it; `values`: the same figures to be read."""

    name: str
    title: str
    about: str
    spec: Callable[[], Spec]
    remark: str = ""
    values: NamedValues | None = None


@dataclass(frozen=True)
class ChartRow:
    """One of several charts with the same seconds across. `about`: a sentence on what it shows."""

    name: str
    title: str
    about: str
    legend: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RunCharts:
    """The charts of one run from top to bottom. `drawn`: what charts.js draws them from; its key is the
    beginning of their names.
    """

    rows: Sequence[ChartRow]
    drawn: Mapping[str, Any]
    title: str = ""
    text: str = ""


@dataclass(frozen=True)
class Timelines:
    """Charts that are zoomed and read together, for pages. `windows`: parts worth a closer look, each a text
    with begin and end.
    """

    runs: Sequence[RunCharts]
    begin: float
    end: float
    windows: Sequence[tuple[str, float, float]] = ()


@dataclass(frozen=True)
class Folded:
    """Blocks that a page shows when they are opened. `in_text`: whether text has them at all."""

    summary: Phrase
    blocks: Sequence[Block]
    in_text: bool = True


@dataclass(frozen=True)
class NamedPart:
    """Something with a name and blocks of its own: a fault, a group. `mark`: a word of judgement on it."""

    title: str
    text: str
    blocks: Sequence[Block] = ()
    mark: str = ""
    good: bool = True


Block = Paragraph | Bullets | NamedValues | Table | Code | Chart | Timelines | Folded | NamedPart


@dataclass(frozen=True)
class Section:
    """`key`: its anchor on a page. `detail`: Markdown folds it."""

    title: Phrase
    blocks: Sequence[Block]
    key: str = ""
    detail: bool = False


@dataclass(frozen=True)
class Figure:
    """A number that matters, with its name, and what it compares to."""

    name: str
    value: str
    remark: str = ""
    bad: bool = False


@dataclass(frozen=True)
class Head:
    """The top: `verdict` in capitals, `answer` the rest of that sentence, `done` in a line what was done,
    `why` in a sentence or two, `outages` when the service stood still, `about` which run of what, `setup`
    of which cluster and clients. `tone`: a verdict, or `loss`.
    """

    verdict: str
    answer: str = ""
    tone: str = ""
    name: str = ""
    title: str = ""
    about: str = ""
    setup: str = ""
    done: str = ""
    why: str = ""
    outages: Sequence[str] = ()
    figures: Sequence[Figure] = ()


@dataclass(frozen=True)
class Document:
    """A whole report. `foot`: lines below everything; `links`: text and address, on pages of a server."""

    head: Head
    sections: Sequence[Section]
    foot: str = ""
    links: Sequence[tuple[str, str]] = ()


def plain(phrase: Phrase) -> str:
    """Its text."""
    return phrase if isinstance(phrase, str) else "".join(phrase)


def parts(phrase: Phrase) -> tuple[str, ...]:
    """Its parts; terms are Terms."""
    return (phrase,) if isinstance(phrase, str) else phrase


def text_of(cell: str | Cell) -> str:
    """Its text, with its label."""
    if isinstance(cell, str):
        return cell
    return f"{cell.text} {cell.label}" if cell.label else cell.text


def limited(table: Table, most: int) -> Table:
    """The same with at most so many rows."""
    return replace(table, rows=table.rows[:most], left_out=max(0, len(table.rows) - most))


def every_block(blocks: Iterable[Block]) -> Iterator[Block]:
    """Blocks, and those within them."""
    for block in blocks:
        yield block
        if isinstance(block, Folded | NamedPart):
            yield from every_block(block.blocks)
