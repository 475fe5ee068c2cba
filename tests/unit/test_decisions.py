"""docs/decisions/README.md: each decision is in it, once; what is overtaken says so in both places."""

from __future__ import annotations

import re
from pathlib import Path

DECISIONS = Path(__file__).parents[2] / "docs" / "decisions"
FILES = sorted(DECISIONS.glob("0*.md"))
INDEX = (DECISIONS / "README.md").read_text(encoding="utf-8")
ENTRY = re.compile(r"^- (\d+): \[(.+)\]\((\d{4}-[\w-]+\.md)\)(?: \*\((.+)\)\*)?$", re.MULTILINE)


def test_every_decision_is_listed_once_by_its_title() -> None:
    """In one theme."""
    listed = sorted((file, f"# {number}. {title}") for number, title, file, _ in ENTRY.findall(INDEX))
    assert listed == [(path.name, path.read_text(encoding="utf-8").splitlines()[0]) for path in FILES]


def test_what_is_overtaken_says_so_and_by_which_one() -> None:
    """In the index, and in the first line below the title."""
    for _, _, file, overtaken in ENTRY.findall(INDEX):
        first = (DECISIONS / file).read_text(encoding="utf-8").splitlines()[2]
        says = first.startswith("*") and not first.startswith("**")
        assert says is bool(overtaken), file
        by = set(re.findall(r"[Dd]ecision (\d+)", first))
        assert not says or by & set(re.findall(r"\d+", overtaken)), file
