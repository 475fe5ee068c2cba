"""Links of the documentation lead somewhere, headings included."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def anchors(page: Path) -> set[str]:
    """Of its headings, as GitHub makes them, and those that it has itself."""
    text = page.read_text(encoding="utf-8")
    heads = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return set(re.findall(r"<a id=\"([^\"]+)\">", text)) | {
        re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """To a file or a directory here, and in it to a heading that is there."""
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if link.startswith(("http:", "https:")):
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_every_page_is_in_the_index() -> None:
    """A page that no reader is led to is not read."""
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert {name for name in pages if f"({name})" not in index} == set()


FILES = [f"/{path.relative_to(ROOT)}" for path in ROOT.glob("*/**/*.py") if ".venv" not in path.parts]
GUIDES = [ROOT / "docs" / f"{name}.md" for name in ("ARCHITECTURE", "ADDING_A_FAULT", "ADDING_AN_ANOMALY")]
TO_BE_MADE = ("src/kaput/faults/NAME.py", "src/kaput/analysis/questions/stale.py")  # by the reader


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)
def test_guides_name_modules_that_exist(page: Path) -> None:
    """`runner/experiment.py` is a file; a name alone, such as `judge.py`, is that of some file."""
    named = re.findall(r"`([\w/-]*\w+\.py)\b", page.read_text(encoding="utf-8"))
    assert len(named) > 5
    gone = [name for name in named if not any(file.endswith(f"/{name}") for file in FILES)]
    assert set(gone) <= set(TO_BE_MADE)
