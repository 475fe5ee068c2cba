"""Renders documents as GitHub Markdown, for an issue or a pull request: the answer first, details folded.

Escapes all text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from kaput.core import plural
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

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#~&@])")


def render(document: Document, heading: str = "**{}**") -> str:
    """The text without `foot`, which is for pages and terminals. `heading`: of section titles."""
    sections = (line for section in document.sections for line in _section(section, heading))
    lines = [*_head(document.head), *sections]
    return "\n".join(lines).rstrip() + "\n"


def table_text(table: Table) -> str:
    return "\n".join(_table(table)).rstrip() + "\n"


def _head(head: Head) -> Iterator[str]:
    if head.answer:
        yield f"### {head.verdict}: {_escaped(head.name)}\n"
    yield from (
        f"{_escaped(text)}\n"
        for text in (head.answer, head.done, head.setup, head.why, *head.outages)
        if text
    )
    if head.figures:
        yield from _table(Table(["", ""], [[figure.name, figure.value] for figure in head.figures]))


def _section(section: Section, heading: str) -> Iterator[str]:
    title = _escaped(plain(section.title))
    lines = list(_blocks(section.blocks))
    if not lines:
        return
    if section.detail:
        yield from _folded(title, lines)
        return
    yield heading.format(title) + "\n"
    yield from lines


def _folded(title: str, lines: Sequence[str]) -> Iterator[str]:
    yield f"<details><summary>{title}</summary>\n"
    yield from lines
    yield "</details>\n"


def _blocks(blocks: Sequence[Block]) -> Iterator[str]:
    for block in blocks:
        match block:
            case Paragraph():
                yield f"{_escaped(plain(block.text))}\n"
            case Bullets():
                yield from (f"- {_escaped(item)}" for item in block.items)
                yield ""
            case NamedValues():
                yield from (f"- {_escaped(': '.join(filter(None, row)))}" for row in block.rows)
                yield ""
            case Table():
                yield from _table(block)
            case Code():
                yield f"```\n{block.text.replace('```', '')}\n```\n"
            case NamedPart():
                mark = f" {block.mark}" if block.mark else ""
                yield f"{_escaped(f'{block.title}{mark}: {block.text}')}\n"
                yield from _blocks(block.blocks)
            case Folded() if block.in_text:
                yield from _folded(_escaped(plain(block.summary)), list(_blocks(block.blocks)))


def _table(table: Table) -> Iterator[str]:
    align = table.align.ljust(len(table.header), "r")
    yield _row(table.header)
    yield _row(["---:" if side == "r" else "---" for side in align], escaped=False)
    yield from (_row(list(map(_cell, row)), escaped=False) for row in table.rows)
    if table.sums:
        yield _row(table.sums)
    yield ""
    if table.left_out:
        yield f"{plural(table.left_out, 'more row')} not shown\n"
    cells = [cell for row in table.rows for cell in row if isinstance(cell, Cell)]
    stories = [story for cell in cells for story in cell.first_stories()]
    if stories and table.stories:
        yield from _folded("Examples", [*(f"- {_escaped(story)}" for story in stories), ""])


def _cell(cell: str | Cell) -> str:
    text = _escaped(text_of(cell))
    if isinstance(cell, Cell):
        text = f"[{text}](#{cell.link})" if cell.link else text
        text = f'<a id="{cell.anchor}"></a>{text}' if cell.anchor else text
    return text


def _row(cells: Sequence[str], escaped: bool = True) -> str:
    return f"| {' | '.join(_escaped(cell) if escaped else cell for cell in cells)} |"


def _escaped(text: str) -> str:
    """The text on one line, with Markdown's special characters escaped."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))
