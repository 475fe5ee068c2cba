"""A sample of the damaged folders; `make fuzz` judges 10,000 (docs/TESTED.md)."""

from __future__ import annotations

from fuzz.fuzz_evidence import run


def test_damage_ends_in_findings_or_is_refused_by_name() -> None:
    """No traceback, no crash of the process, no hanging; both that is seen and that is not is among them."""
    total = run(range(120), seed=1, workers=1)
    assert total.failures == []
    assert total.ended["refused"] > 50
    assert total.ended["violated"] > 10
