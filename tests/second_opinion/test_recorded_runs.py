"""No claim about a recorded run of a built-in is false (tests/recorded, made by scripts/record_runs.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

from second_opinion.judging import examined
from second_opinion.opinion import FALSE, TRUE

RECORDED = sorted(path.parent for path in (Path(__file__).parents[1] / "recorded").glob("*/manifest.json"))
# Each differs from one that is judged sooner in one setting, or in what cuts off its leader.
VARIANTS = {
    "broker-killed",
    "leader-isolated-acks-1",
    "leader-kill-lagging-acks-all",
    "minority-partition-acks-1",
    "orders",
    "power-loss-flush",
    "unclean-election-elr",
}


@pytest.mark.parametrize(
    "run",
    [pytest.param(run, marks=[pytest.mark.long] * (run.name in VARIANTS), id=run.name) for run in RECORDED],
)
def test_no_claim_about_a_recorded_run_is_false(run: Path, tmp_path: Path) -> None:
    """Every claim, and every field that holds the same values."""
    found = examined(run, tmp_path)
    assert [one for one in found if one.verdict == FALSE] == []
    assert any(one.verdict == TRUE for one in found)


def test_recorded_runs_are_small_and_name_no_machine() -> None:
    """Twenty families, half a megabyte each at most."""
    assert len(RECORDED) >= 20
    for run in RECORDED:
        size = sum(file.stat().st_size for file in run.rglob("*") if file.is_file())
        assert size < 500_000, run.name
        texts = (run / "manifest.json").read_text() + (run / "scenario.yaml").read_text()
        assert "/home/" not in texts, run.name
