"""A sample of the damaged folders, half of it long; `make fuzz` judges 10,000 (docs/TESTED.md)."""

from __future__ import annotations

import pytest

from fuzz.fuzz_evidence import run


@pytest.mark.parametrize("first", [0, pytest.param(60, marks=pytest.mark.long)])
def test_damage_ends_in_findings_or_is_refused_by_name(first: int) -> None:
    """No traceback, no crash of the process, no hanging; both that is seen and that is not is among them."""
    total = run(range(first, first + 60), seed=1, workers=1)
    assert total.failures == []
    assert total.ended["refused"] > 25
    assert total.ended["violated"] > 5
