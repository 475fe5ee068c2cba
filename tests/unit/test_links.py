"""Links of the documentation lead somewhere, headings included."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
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


@pytest.mark.parametrize(
    "page",
    [
        "HOW_MANY_REPLICAS", "WHAT_YOU_LOSE", "OUTAGES", "RECONFIGURATION", "REGRESSIONS", "STORE_OR_MIN_ISR",
        "WAKE_ME_UP", "FAILOVER", "SEARCH",
    ],
)  # fmt: skip
def test_results_name_the_command_the_version_and_the_day(page: str) -> None:
    """A reader can make them again, and knows what they are of."""
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    assert re.search(r"^    (kaput (run|matrix|regress|search) |\.venv/bin/python benchmarks/)", text, re.M)
    assert re.search(r"(Kafka|regress \d.*) \d\.\d+\.\d", text)
    assert re.search(r"\d November 2026|2026-11-\d\d", text)


def test_recorded_runs_are_of_the_day_and_version_that_the_page_names() -> None:
    """The runs of OUTAGES, from their manifests."""
    text = (ROOT / "docs" / "OUTAGES.md").read_text(encoding="utf-8")
    for name in ("broker-killed", "broker-isolated", "leader-isolated-acks-1"):
        manifest = json.loads((ROOT / "tests" / "recorded" / name / "manifest.json").read_text("utf-8"))
        day = datetime.fromtimestamp(manifest["started_ns"] / 1e9, UTC).date()
        assert f"(Kafka {manifest['versions']['kafka']}, {day})" in text


def test_every_page_is_in_the_index() -> None:
    """A page that no reader is led to is not read."""
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert {name for name in pages if f"({name})" not in index} == set()


FILES = [f"/{path.relative_to(ROOT)}" for part in ("src", "tests") for path in (ROOT / part).rglob("*.py")]
GUIDES = [ROOT / "docs" / f"{name}.md" for name in ("ARCHITECTURE", "ADDING_A_FAULT", "ADDING_AN_ANOMALY")]
TO_BE_MADE = ("src/kaput/faults/NAME.py", "src/kaput/analysis/questions/stale.py")  # by the reader


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)
def test_guides_name_modules_that_exist(page: Path) -> None:
    """`runner/experiment.py` is a file; a name alone, such as `judge.py`, is that of some file."""
    named = re.findall(r"`([\w/-]*\w+\.py)\b", page.read_text(encoding="utf-8"))
    assert len(named) > 5
    gone = [name for name in named if not any(file.endswith(f"/{name}") for file in FILES)]
    assert set(gone) <= set(TO_BE_MADE)
