"""A report as data: a head, and sections of paragraphs, lists, tables and charts.

sections/ builds documents from findings; render/ draws them as text, Markdown or HTML; neither imports the
other. All text is plain: the renderers escape it. Numbers are formatted by the functions at the top.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from kaput import core

NOTHING = "-"
Item = TypeVar("Item")


def number(value: float | None) -> str:
    """1234567 -> `1,234,567`; small numbers keep some decimals; None -> `-`."""
    if value is None:
        return NOTHING
    if isinstance(value, int) or abs(value) >= 100 or value == round(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def milliseconds(value: float | None) -> str:
    """`9,480 ms`, or `-`."""
    return NOTHING if value is None else f"{number(value)} ms"


def percent(share: float | None) -> str:
    """core.percent, or `-`."""
    return NOTHING if share is None else core.percent(share)


def seconds(value: float | None) -> str:
    """`9.5 s`, or `-`."""
    return NOTHING if value is None else f"{value:,.1f} s"


Phrase = str | tuple[str, ...]  # a text, or its parts if some of them are Terms
Spec = Mapping[str, Any]  # a Vega-Lite chart


class Term(str):
    """Text with a glossary entry, `word`: an HTML page shows the entry on hover."""

    word: str

    def __new__(cls, text: str, word: str = "") -> Term:
        made = super().__new__(cls, text)
        made.word = word or text
        return made


@dataclass(frozen=True)
class Paragraph:
    """A paragraph. `tone`: lead (an introduction), fine (small print), or note (a warning)."""

    text: Phrase
    tone: str = ""


@dataclass(frozen=True)
class Bullets:
    """A list."""

    items: Sequence[str]


@dataclass(frozen=True)
class NamedValues:
    """Rows of a name, a value, and optionally a remark."""

    rows: Sequence[tuple[str, ...]]


@dataclass(frozen=True)
class Cell:
    """`label`: the name of the count; `stories`: cases behind it; `anchor`: the target of a `link`."""

    text: str
    label: str = ""
    bad: bool = False
    stories: Sequence[str] = ()
    anchor: str = ""
    link: str = ""

    def first_stories(self) -> list[str]:
        """The first three, and how many more there are, unless the text counts them itself."""
        more = 0 if "example" in self.text else len(self.stories) - 3
        return [*self.stories[:3], *([f"and {more:,} more"] if more > 0 else [])]


@dataclass(frozen=True)
class Table:
    """A table. `align`: l or r for each column, r for columns beyond its length (in text, l if they have
    words and no numbers). `left_out`: the number of rows that are not shown. `stories`: whether text output
    shows the first stories of each row.
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
    """A stand-alone chart, for HTML pages. `spec` builds it; `values`: the same figures as text."""

    name: str
    title: str
    about: str
    spec: Callable[[], Spec]
    remark: str = ""
    values: NamedValues | None = None


@dataclass(frozen=True)
class ChartRow:
    """One of several charts with a common time axis. `about`: a sentence on what it shows."""

    name: str
    title: str
    about: str
    legend: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RunCharts:
    """The charts of one run from top to bottom. `drawn`: for charts.js, by `key`, the names' prefix."""

    rows: Sequence[ChartRow]
    drawn: Mapping[str, Any]
    title: str = ""
    text: str = ""


@dataclass(frozen=True)
class Timelines:
    """Charts zoomed together, for pages. `windows`: (text, begin, end in s) worth a closer look."""

    runs: Sequence[RunCharts]
    begin: float
    end: float
    windows: Sequence[tuple[str, float, float]] = ()


@dataclass(frozen=True)
class Folded:
    """Blocks that an HTML page folds. `in_text`: whether text and Markdown have them at all."""

    summary: Phrase
    blocks: Sequence[Block]
    in_text: bool = True


@dataclass(frozen=True)
class NamedPart:
    """A named item with its own blocks, such as a fault or a group. `mark`: a word of judgement on it."""

    title: str
    text: str
    blocks: Sequence[Block] = ()
    mark: str = ""
    good: bool = True


Block = Paragraph | Bullets | NamedValues | Table | Code | Chart | Timelines | Folded | NamedPart


@dataclass(frozen=True)
class Section:
    """A section. `key`: its anchor on an HTML page. `detail`: Markdown folds it."""

    title: Phrase
    blocks: Sequence[Block]
    key: str = ""
    detail: bool = False


@dataclass(frozen=True)
class Figure:
    """A key figure: name, value, and a remark to compare it with."""

    name: str
    value: str
    remark: str = ""
    bad: bool = False


@dataclass(frozen=True)
class Head:
    """The top of a report. `verdict`: in capitals; `answer`: the rest of that sentence; `tone`: a verdict or
    `loss`; `about`: identifies the run; `setup`: the cluster and clients; `done`: the injected faults, in a
    line; `why`: the reason, in a sentence or two; `outages`: sentences on standstills.
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
    """A whole report. `foot`: lines at the end; `links`: (text, address), for pages of the dashboard."""

    head: Head
    sections: Sequence[Section]
    foot: str = ""
    links: Sequence[tuple[str, str]] = ()


def plain(phrase: Phrase) -> str:
    return phrase if isinstance(phrase, str) else "".join(phrase)


def parts(phrase: Phrase) -> tuple[str, ...]:
    """The parts of a phrase, some of which may be Terms."""
    return (phrase,) if isinstance(phrase, str) else phrase


def text_of(cell: str | Cell) -> str:
    if isinstance(cell, str):
        return cell
    return f"{cell.text} {cell.label}" if cell.label else cell.text


def table_of(
    items: Iterable[Item],
    columns: Mapping[str, Callable[[Item], str | Cell | float | None]],
    align: str = "l",
) -> Table:
    """A table with a row for each item. `columns`: by header, what an item has there."""
    rows = [[_cell(of(item)) for of in columns.values()] for item in items]
    return Table(list(columns), rows, align)


def _cell(value: str | Cell | float | None) -> str | Cell:
    return value if isinstance(value, str | Cell) else number(value)


def bad_if_any(count: int) -> Cell:
    """A count that is bad unless it is 0."""
    return Cell(number(count), bad=count > 0)


def limited(table: Table, most: int) -> Table:
    return replace(table, rows=table.rows[:most], left_out=max(0, len(table.rows) - most))


def every_block(blocks: Iterable[Block]) -> Iterator[Block]:
    for block in blocks:
        yield block
        if isinstance(block, Folded | NamedPart):
            yield from every_block(block.blocks)
