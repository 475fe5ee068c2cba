"""A sample of the damaged folders, a quarter of them always; `make fuzz` judges 10,000 (docs/TESTED.md)."""

from __future__ import annotations

import pytest

from fuzz import fuzz_inputs
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


@pytest.mark.parametrize("first", [0, pytest.param(300, marks=pytest.mark.long)])
def test_changed_files_are_read_or_refused_by_name(first: int) -> None:
    """No traceback, and nothing that is neither read nor reported; of each kind some are refused."""
    total = fuzz_inputs.run(range(first, first + 300), seed=1)
    assert total.failures == []
    assert {kind for kind, how in total.ended if how == "refused"} == set(fuzz_inputs.KINDS)
    assert {kind for kind, how in total.ended if how == "read"} == {*fuzz_inputs.KINDS} - {"misspelled key"}
