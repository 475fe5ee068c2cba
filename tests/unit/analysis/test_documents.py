"""Everything that the analysis tells of small runs, to the last number and word."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from fakes.comparing import differences
from fakes.small_runs import DOCUMENTS, RUNS, document


@pytest.mark.parametrize("name", RUNS)
def test_a_small_run_is_told_as_it_is_on_record(name: str, tmp_path: Path) -> None:
    """Every field of the findings, and every row of the tables."""
    expected = yaml.safe_load((DOCUMENTS / f"{name}.yaml").read_text())
    assert differences(document(RUNS[name](), tmp_path), expected) == {}


def test_every_record_is_of_a_run() -> None:
    """A document that no run makes is compared with nothing."""
    assert {path.stem for path in DOCUMENTS.iterdir()} == set(RUNS)
