"""Which row groups a second pass over sends reads: those that may have what is asked, and no others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kaput.analysis.questions.fault_windows import FaultWindow, FaultWindows
from kaput.analysis.questions.order import StorageOrder
from kaput.analysis.runs.tables import Extents, Unit

Asks = FaultWindows | StorageOrder


def _groups(path: Path, statistics: bool = True) -> list[Unit]:
    """Two row groups: seqs 0 to 9, attempted at 0 to 9 and done 100 later; seqs 10 to 19, the same."""
    seq = list(range(20))
    columns = {"seq": seq, "attempt_ns": seq, "done_ns": [at + 100 for at in seq]}
    pq.write_table(pa.table(columns), path, row_group_size=10, write_statistics=statistics)
    return [Unit("sends", str(path), number, 10) for number in range(2)]


def _read(path: Path, question: Asks, statistics: bool = True) -> Sequence[bool]:
    return [question.wants(Extents(unit)) for unit in _groups(path, statistics)]


@pytest.mark.parametrize(
    ("window", "read"),
    [
        (FaultWindow("f", 3, {7: 9}), [True, False]),
        (FaultWindow("f", 3, {7: 9, 8: 10}), [True, True]),  # until the last end of its partitions
        (FaultWindow("f", 20, {7: 99}), [False, False]),
        (FaultWindow("f", loss_from_ns=110, loss_to_ns=115), [False, True]),
        (FaultWindow("f", loss_from_ns=5, loss_to_ns=6), [True, False]),
        (FaultWindow("f"), [False, False]),
    ],
)
def test_only_row_groups_overlapping_the_window_are_read(
    tmp_path: Path, window: FaultWindow, read: list[bool]
) -> None:
    """By the time of the attempt; of losses by that of the outcome, too."""
    assert _read(tmp_path / "sends", FaultWindows([window])) == read


def test_only_row_groups_with_late_seqs_are_read(tmp_path: Path) -> None:
    """Reordered messages are asked for by their seqs."""
    late = pl.DataFrame({"producer": [0], "seq": [11], "n": [2], "place": [0]})
    assert _read(tmp_path / "sends", StorageOrder(late)) == [False, True]


def test_file_without_statistics_is_read(tmp_path: Path) -> None:
    """Whoever wrote it need not have kept statistics."""
    question = FaultWindows([FaultWindow("f", 20, {7: 99})])
    assert _read(tmp_path / "sends", question, statistics=False) == [True, True]
