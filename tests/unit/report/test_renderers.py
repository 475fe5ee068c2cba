"""Each renderer draws every block of any document, and escapes what comes from data."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import pytest

from kaput.report.document import (
    Block,
    Bullets,
    Cell,
    Chart,
    Code,
    Document,
    Folded,
    Head,
    NamedPart,
    NamedValues,
    Paragraph,
    RunCharts,
    Section,
    Table,
    Term,
    Timelines,
    limited,
)
from kaput.report.render import html, markdown, terminal

EVIL = "<b>|*\x1b[2J"
TABLE = Table(
    ["topic", "lost"],
    [["orders", Cell("3", Term("lost"), True, ["story 1", "story 2", "story 3", "story 4"])], ["bills", "0"]],
    sums=["sum", "3"],
)
BLOCKS: tuple[Block, ...] = (
    Paragraph(("a paragraph about the ", Term("drain")), "note"),
    Bullets(["an item of a list"]),
    NamedValues([(Term("a name", "lost"), "a value", "a remark"), (EVIL, EVIL)]),
    TABLE,
    Code("kaput run x"),
    Chart("dots-0", "A chart", "what it shows", lambda: {"$schema": "", "layer": []}),
    Timelines([RunCharts([], {"key": "", "charts": {}})], 0, 1),
    Folded("folded", [Paragraph("text within it")]),
    Folded("for pages", [Paragraph("too much for text")], in_text=False),
    NamedPart("1-kill", "the proof", [NamedValues([("election", "9 ms")])], "confirmed"),
)
DOCUMENT = Document(
    Head("HELD", "all is well", "held", "scenario"),
    [
        Section("A section", BLOCKS),
        Section("A detail", [Paragraph("small")], detail=True),
        Section("Empty", []),
    ],
)
RENDERERS: tuple[Callable[[Document], str], ...] = (
    html.render,
    markdown.render,
    lambda document: terminal.render(document).plain,
)


def test_the_document_here_has_every_block() -> None:
    """Or the tests below say less than they seem to."""
    assert {type(block) for block in BLOCKS} == set(get_args(Block))


@pytest.mark.parametrize("render", RENDERERS)
def test_every_renderer_draws_every_block_that_is_text(render: Callable[[Document], str]) -> None:
    """Their texts are there; what is for pages alone is on pages alone."""
    text = render(DOCUMENT)
    for part in (
        "all is well", "a paragraph about the ", "an item of a list", "a value", "a remark", "orders",
        "story 3", "sum", "kaput run x", "text within it", "1-kill", "confirmed", "the proof", "election",
        "small",
    ):  # fmt: skip
        assert part in text, part
    assert ("too much for text" in text) == ("chart-dots-0" in text) == (render is html.render)


def test_markup_and_control_characters_of_data_are_text() -> None:
    page, text, plain = (render(DOCUMENT) for render in RENDERERS)
    assert "&lt;b&gt;" in page and "<b>|" not in page
    assert "\\<b\\>\\|\\*" in text
    assert "\\x1b[2J" in plain and "\x1b" not in plain


def test_markdown_folds_details() -> None:
    """So that the answer is on the first screen."""
    assert "<details><summary>A detail</summary>\n\nsmall\n\n</details>" in markdown.render(DOCUMENT)


def test_a_section_without_blocks_is_left_out_of_text() -> None:
    assert all("Empty" not in render(DOCUMENT) for render in RENDERERS[1:])


def test_text_tables_align_by_display_width() -> None:
    """A wide character takes two columns; stories follow their row; rows left out are counted."""
    table = limited(Table(["name", "n"], [["日本", "1"], ["abcd", "22"], ["z", "3"]]), 2)
    assert terminal.table_text(table).plain.splitlines() == [
        "  name   n",
        "  日本   1",
        "  abcd  22",
        "  1 more row not shown",
    ]
    lines = terminal.table_text(TABLE).plain.splitlines()
    assert lines[1:5] == ["  orders  3 lost", "      story 1", "      story 2", "      story 3"]


def test_columns_of_words_are_left_aligned_in_text() -> None:
    """Else a long last cell moves those of the other rows to the edge of the screen; numbers stay right."""
    rows = [["billing", "kafka-java", "Fetch 17, Produce 12", "5"], ["x", "librdkafka", "Fetch 11", "12"]]
    text = terminal.table_text(Table(["client", "library", "versions", "n"], rows)).plain.splitlines()
    assert text == [
        "  client   library     versions               n",
        "  billing  kafka-java  Fetch 17, Produce 12   5",
        "  x        librdkafka  Fetch 11              12",
    ]


def test_facts_are_packed_into_lines() -> None:
    """As many as fit, none of them cut."""
    facts = NamedValues([(f"fact {number}", "x" * 30) for number in range(4)])
    text = terminal.render(Document(Head(""), [Section("Facts", [facts])])).plain
    assert [line.count("fact") for line in text.splitlines()] == [0, 2, 2]


def test_glossary_terms_are_explained_on_the_page() -> None:
    """A term on a page; a word that the glossary lacks is plain text."""
    page = html.render(Document(Head("x"), [Section("s", [Paragraph((Term("drain"), Term("nonsense")))])]))
    assert ">drain</dfn>nonsense</p>" in page and "reading every partition to its end" in page
