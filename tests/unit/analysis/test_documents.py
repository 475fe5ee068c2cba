"""Everything that the analysis tells of small runs, to the last number and word."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from fakes.comparing import differences
from fakes.documents import ASPECTS, DOCUMENTS, STRETCHES, document, in_many_tasks, recorded
from fakes.small_runs import RUNS


@pytest.mark.parametrize("name", RUNS)
def test_small_run_matches_its_recorded_document(name: str, tmp_path: Path) -> None:
    """Every field of the findings, and every row of the tables."""
    expected = _recorded(name, "ledger of messages")
    assert differences(_keyed(document(RUNS[name](), tmp_path)), _keyed(expected)) == {}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.long] * (name not in ("anomalies", "elections")))
        for name in RUNS
    ],
)
def test_split_run_matches_its_recorded_document(name: str, tmp_path: Path) -> None:
    """But for the order of the tables' rows."""
    expected = _recorded(name, STRETCHES)
    found = document(RUNS[name](), tmp_path, in_many_tasks, "stretches")
    for told in (found, expected):
        told["tables"] = {table: sorted(rows) for table, rows in told["tables"].items()}
    assert differences(_keyed(found), _keyed(expected)) == {}


def test_every_recorded_document_has_a_run() -> None:
    """A document that no run makes is compared with nothing."""
    assert _documents().keys() == RUNS.keys()
    assert {path.stem for path in DOCUMENTS.iterdir()} == ASPECTS.keys()


_documents = cache(recorded)


def _recorded(run: str, ledger: str) -> dict[str, Any]:
    """With that one of the two ledgers."""
    whole = _documents()[run]
    tables = {name: rows for name, rows in whole["tables"].items() if "ledger" not in name or name == ledger}
    return whole | {"tables": tables}


def _keyed(value: Any) -> Any:
    """Lists by number, so that what differs is named."""
    if isinstance(value, list):
        value = dict(enumerate(value))
    return {key: _keyed(each) for key, each in value.items()} if isinstance(value, dict) else value
