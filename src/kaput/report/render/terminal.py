"""Renders documents as text for terminals: aligned, not boxed, so that the same text works in a pipe.

The terminal wraps long lines. Escapes all text (printable.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich.cells import cell_len
from rich.text import Text

from kaput.core import plural
from kaput.printable import printable, printable_lines
from kaput.report.document import (
    Block,
    Bullets,
    Cell,
    Code,
    Document,
    Folded,
    Head,
    NamedPart,
    NamedValues,
    Paragraph,
    Section,
    Table,
    plain,
    text_of,
)

_FACTS_WIDTH = 100
_BAD, _GOOD = "bold red", "green"
_VERDICTS = {
    "held": "bold green",
    "loss": "bold green",
    "violated": "bold red",
    "inconclusive": "bold yellow",
}
_TONES = {"fine": "dim", "note": _BAD}


def render(document: Document, width: int | None = None) -> Text:
    """The text. `width`: of the terminal; a table that does not fit is transposed if that makes it fit."""
    sections = [_section(section, width) for section in document.sections]
    foot = Text(f"{printable_lines(document.foot)}\n") if document.foot else Text()
    return Text("\n").join(part for part in (_head(document.head), *sections, foot) if part)


def _head(head: Head) -> Text:
    text = Text()
    if head.answer:
        text.append(printable(head.verdict), _VERDICTS.get(head.tone, "bold"))
        text.append(f": {printable(head.answer)}\n")
    text.append("".join(f"{printable(sentence)}\n" for sentence in head.outages))
    text.append(f"{printable(head.title)}\n" if head.title else "", "dim")
    return text.append("".join(f"{printable(line)}\n" for line in (head.about, head.setup) if line), "dim")


def _section(section: Section, width: int | None) -> Text:
    text = Text(f"{printable(plain(section.title))}\n", "bold")
    shown = list(_blocks(section.blocks, "  ", width))
    return Text.assemble(text, *shown) if any(shown) else Text()


def _blocks(blocks: Sequence[Block], indent: str, width: int | None) -> Iterator[Text]:
    before: Block | None = None
    for block in _unfolded(blocks):
        match block:
            case Paragraph():
                yield Text(f"{indent}{printable(plain(block.text))}\n", _TONES.get(block.tone, ""))
            case Bullets():
                yield Text("".join(f"{indent}- {printable(item)}\n" for item in block.items))
            case NamedValues():
                yield Text("".join(f"{indent}{line}\n" for line in _facts(block)))
            case Table():
                yield Text("\n" if isinstance(before, Table) else "")
                yield table_text(block, indent, width)
            case Code():
                yield Text("".join(f"{indent}{printable(line)}\n" for line in block.text.splitlines()))
            case NamedPart():
                yield _item(block, indent)
                yield from _blocks(block.blocks, indent + "    ", width)
        before = block


def _unfolded(blocks: Sequence[Block]) -> Iterator[Block]:
    for block in blocks:
        if not isinstance(block, Folded):
            yield block
        elif block.in_text:
            yield from _unfolded(block.blocks)


def _facts(facts: NamedValues) -> Iterator[str]:
    """Lines of names and values, as many on a line as fit."""
    line = ""
    for row in facts.rows:
        fact = printable(" ".join(filter(None, row)))
        if line and len(line) + len(fact) > _FACTS_WIDTH:
            yield line
            line = ""
        line = f"{line}; {fact}" if line else fact
    yield line


def _item(item: NamedPart, indent: str) -> Text:
    mark = (f" {printable(item.mark)}" if item.mark else "", _GOOD if item.good else _BAD)
    return Text.assemble(f"{indent}{printable(item.title)}", mark, f": {printable(item.text)}\n")


def table_text(table: Table, indent: str = "  ", width: int | None = None) -> Text:
    """An aligned table, a line for each row."""
    found = _lines(table, indent)
    if (
        width is not None
        and _width(found) > width
        and _width(transposed := _lines(_transposed(table), indent)) <= width
    ):
        found = transposed
    if table.left_out:
        found.append(f"{indent}{plural(table.left_out, 'more row')} not shown\n", "dim")
    return found


def _lines(table: Table, indent: str) -> Text:
    rows = [table.header, *table.rows, *([table.sums] if table.sums else [])]
    texts = [[printable(text_of(cell)) for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(*texts, strict=True)]
    body = zip(*texts[1:], strict=True) if len(texts) > 1 else [()] * len(widths)
    sides = [_side(column) for column in body]
    align = table.align + "".join(sides[len(table.align) :])
    text = Text()
    for number, row in enumerate(rows):
        line = Text(indent, "dim" if number == 0 else "")
        for cell, shown, room, side in zip(row, texts[number], widths, align, strict=True):
            gap = " " * (room - cell_len(shown))
            bad = isinstance(cell, Cell) and cell.bad
            line.append(gap if side == "r" else "").append(shown, _BAD if bad else "")
            line.append("  " if side == "r" else f"{gap}  ")
        line.rstrip()
        text.append_text(line.append("\n"))
        cells = [cell for cell in row if isinstance(cell, Cell) and table.stories]
        for story in (story for cell in cells for story in cell.first_stories()):
            text.append(f"{indent}    {printable(story)}\n", "dim")
    return text


def _side(column: Sequence[str]) -> str:
    """l for a column of words, r for one with numbers, or without anything."""
    numbers = any(cell[:1].isdigit() for cell in column)
    return "l" if not numbers and any(cell[:1].isalpha() for cell in column) else "r"


def _transposed(table: Table) -> Table:
    header, *rows = zip(table.header, *table.rows, strict=True)
    return replace(table, header=list(map(text_of, header)), rows=rows, align="l")


def _width(text: Text) -> int:
    return max(cell_len(line) for line in text.plain.splitlines())
