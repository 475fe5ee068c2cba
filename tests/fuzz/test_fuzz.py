"""A sample of the damaged folders, a quarter of them always; `make fuzz` judges 10,000 (docs/TESTED.md)."""

from __future__ import annotations

import pytest

from fuzz.fuzz_evidence import run


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(first, marks=pytest.mark.long) for first in (30, 60, 90))]
)
def test_damaged_folders_are_judged_or_rejected_without_a_crash(first: int) -> None:
    """No traceback, no crash of the process, no hanging; both that is seen and that is not is among them."""
    total = run(range(first, first + 30), seed=1, workers=1)
    assert total.failures == []
    assert total.ended["refused"] > 10
    assert total.ended["violated"] > 1
