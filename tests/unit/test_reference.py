"""Pages and files that are made from the code say what the code says."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from kaput.evidence.schemas import TABLES
from kaput.scenario.fault_kinds import KINDS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    """scripts/reference.py as a module."""
    spec = importlib.util.spec_from_file_location("reference", ROOT / "scripts" / "reference.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["reference"] = module
    spec.loader.exec_module(module)
    return module


def test_generated_pages_are_up_to_date(reference: ModuleType) -> None:
    """If this fails: make reference."""
    stale = [path for path, text in reference.pages().items() if path.read_text(encoding="utf-8") != text]
    assert not stale, f"make reference; out of date: {stale}"


def test_no_row_of_a_table_goes_over_two_lines(reference: ModuleType) -> None:
    lines = [line for text in reference.pages().values() for line in text.splitlines()]
    assert [line for line in lines if line.startswith("|") != line.endswith("|")] == []


def test_every_fault_is_listed_with_what_confirms_it(reference: ModuleType) -> None:
    """Each word of a scenario's `fault` has a heading; all but noop have a proof."""
    page = (ROOT / "docs" / "FAULTS.md").read_text(encoding="utf-8")
    sections = {part.partition(":")[0]: part for part in page.split("\n### ")[1:]}
    assert sections.keys() == KINDS.keys()
    unproven = [name for name, part in sections.items() if "Confirmed by: nothing" in part]
    assert unproven == ["noop"]


def test_every_column_is_documented() -> None:
    """And no text says `None`: a nullable column says what null means."""
    columns = [column for table in TABLES.values() for column in table.columns]
    assert all(column.about for column in columns)
    assert all(column.null != "" for column in columns)


def test_the_glossary_is_sorted() -> None:
    """Both of its tables, without regard to case, hyphens and underscores; and no word is in it twice."""
    page = (ROOT / "docs" / "GLOSSARY.md").read_text(encoding="utf-8")
    tables = [
        [line[2:].partition(" | ")[0] for line in part.splitlines() if line.startswith("| ")][2:]
        for part in page.split("\n## ")[1:]
    ]
    assert len(tables) == 2 and all(len(words) > 10 for words in tables)
    for words in tables:
        plain = [re.sub("[^a-z0-9 ]", "", re.sub("[_-]", " ", word.lower())) for word in words]
        assert plain == sorted(plain)
    every = [word.partition(" [")[0] for words in tables for cell in words for word in cell.split(", ")]
    assert len(every) == len(set(every))


def test_readme_is_short_and_its_picture_is_the_run_that_is_quoted() -> None:
    """At most 150 lines; if the picture is of another run: docs/picture.py."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) <= 150
    quoted = (ROOT / "docs" / "OUTAGES.md").read_text(encoding="utf-8")
    lost = re.search(r"([\d,]+) acknowledged messages lost", quoted)
    assert lost and lost[1] in readme
    light = (ROOT / "docs" / "isolated-leader.svg").read_text(encoding="utf-8")
    dark = (ROOT / "docs" / "isolated-leader-dark.svg").read_text(encoding="utf-8")
    assert f"{lost[1]} messages acknowledged that are lost" in light
    text = re.compile(r">([^<>]+)<")
    assert text.findall(light) == text.findall(dark) and light != dark
