"""A run's log table as traffic: order, identity, and what is left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from dedup_scoring import first_copies, read_run_log


def write(run: Path, rows: list[dict[str, Any]]) -> Path:
    """The log table of a run folder."""
    (run / "evidence" / "log").mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows), run / "evidence" / "log" / "part.parquet")
    return run


def row(offset: int, producer: int | None, seq: int | None, **more: Any) -> dict[str, Any]:
    """A record of partition orders/0."""
    return {
        "topic": "orders", "partition": 0, "offset": offset, "producer": producer, "seq": seq, **more,
    }  # fmt: skip


def test_log_is_read_in_offset_order_with_message_ids(tmp_path: Path) -> None:
    """Files are in any order; two producers count from 0 each; records of others are left out."""
    rows = [row(3, 0, 0), row(0, 0, 0), row(1, 1, 0), row(2, None, None)]
    found = read_run_log(write(tmp_path, rows))
    assert [one.record.offset for one in found] == [0, 1, 3]
    assert first_copies(found) == [True, True, False]
    assert found[0].record.id == found[2].record.id != found[1].record.id


def test_aborted_records_are_not_delivered(tmp_path: Path) -> None:
    """A reader with read_committed never gets it; null means that readers do."""
    rows = [row(0, 0, 0, visible=False), row(1, 0, 0, visible=None), row(2, 0, 1, visible=True)]
    assert [one.record.offset for one in read_run_log(write(tmp_path, rows))] == [1, 2]
