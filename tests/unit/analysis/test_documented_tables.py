"""docs/RUN_FOLDER.md names every table of analysis/, and its columns in their order."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

from fakes.histories import History
from fakes.in_process import InProcess
from kaput.analysis.pipeline import analyse
from kaput.evidence.reading import check

PAGE = Path(__file__).parents[3] / "docs" / "RUN_FOLDER.md"


def documented() -> dict[str, list[str]]:
    """The columns of each table, in the order of the page."""
    section = PAGE.read_text(encoding="utf-8").partition("## Tables of analysis/")[2].partition("\n## ")[0]
    rows = [line.split(" | ") for line in section.splitlines() if line.startswith("| `")]
    return {
        table.strip("| `"): re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", columns))
        for table, _, columns in rows
    }


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The columns of each table of a run with a group and a lost message."""
    history = History(
        producers=[{"topic": "orders", "acks": 1}],
        topics=[{"name": "orders"}],
        groups={"billing": True},
    )
    history.acked(0, 0, 0)
    history.sent(0, 1, 1)
    path = tmp_path_factory.mktemp("run")
    analyse(check(history.read_to_end().write(path)), InProcess())  # type: ignore[arg-type]
    return {
        table.name: pl.read_parquet(table / "**/*.parquet", hive_partitioning=False).columns
        for table in (path / "analysis").iterdir()
    }


def test_columns_are_documented(written: dict[str, list[str]]) -> None:
    assert written.keys() >= {"ledger", "lost", "windows", "rates", "timeline", "lag", "events"}
    assert {table: documented()[table] for table in written} == written


def test_only_tables_of_mirrors_and_stores_are_missing_here(written: dict[str, list[str]]) -> None:
    assert documented().keys() - written.keys() == {"mirror_lag", "stores"}
