"""Everything that the analysis tells of small runs, to the last number and word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from fakes.comparing import differences
from fakes.documents import DOCUMENTS, STRETCHES, document, in_many_tasks
from fakes.small_runs import RUNS


@pytest.mark.parametrize("name", RUNS)
def test_small_run_matches_its_recorded_document(name: str, tmp_path: Path) -> None:
    """Every field of the findings, and every row of the tables."""
    expected = _recorded(name, "ledger of messages")
    assert differences(_keyed(document(RUNS[name](), tmp_path)), _keyed(expected)) == {}


@pytest.mark.parametrize("name", RUNS)
def test_split_run_matches_its_recorded_document(name: str, tmp_path: Path) -> None:
    """But for the order of the tables' rows."""
    expected = _recorded(name, STRETCHES)
    found = document(RUNS[name](), tmp_path, in_many_tasks, "stretches")
    for told in (found, expected):
        told["tables"] = {table: sorted(rows) for table, rows in told["tables"].items()}
    assert differences(_keyed(found), _keyed(expected)) == {}


def test_every_recorded_document_has_a_run() -> None:
    """A document that no run makes is compared with nothing."""
    assert {path.stem for path in DOCUMENTS.iterdir()} == set(RUNS)


def _recorded(name: str, ledger: str) -> Any:
    """With that one of the two ledgers."""
    found = yaml.safe_load((DOCUMENTS / f"{name}.yaml").read_text())
    tables = found["tables"].items()
    return found | {
        "tables": {table: rows for table, rows in tables if "ledger" not in table or table == ledger}
    }


def _keyed(value: Any) -> Any:
    """Lists by number, so that what differs is named."""
    if isinstance(value, list):
        value = dict(enumerate(value))
    return {key: _keyed(each) for key, each in value.items()} if isinstance(value, dict) else value
