"""docs/IDEMPOTENCE.md against the filters: the part of it that is the same on every machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from dedup_scoring import FILTERS, score_of, troubles

PAGE = Path(__file__).parents[3] / "docs" / "IDEMPOTENCE.md"
SEEDS = range(20)  # as in benchmarks/idempotence.py
KINDS = list(troubles(0))


def row(kind: str) -> list[str]:
    """The cells of that kind of trouble in the page's first table of mistakes."""
    text = PAGE.read_text(encoding="utf-8").partition("begin: traffic")[2].partition("end: traffic")[0]
    (line,) = [line for line in text.splitlines() if line.startswith(f"| {kind} |")]
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


@pytest.mark.parametrize("kind", [KINDS[2], KINDS[8], KINDS[11]])
def test_page_table_matches_the_filters(kind: str) -> None:
    """Made anew from the same seeds; `benchmarks/idempotence.py --only traffic` writes the table."""
    logs = [troubles(seed)[kind].read() for seed in SEEDS]
    for cell, (name, made) in zip(row(kind), FILTERS.items(), strict=True):
        scores = [score_of(made(), log) for log in logs]
        passed, dropped = sum(one.passed for one in scores), sum(one.dropped for one in scores)
        parts = [f"+{passed:,}"] * (passed > 0) + [f"−{dropped:,}"] * (dropped > 0)
        assert cell == (" ".join(parts) or "0"), name


def test_the_page_has_every_kind_of_trouble() -> None:
    """A kind that was added or renamed is not in the page until it is made anew."""
    assert all(len(row(kind)) == len(FILTERS) for kind in KINDS)
