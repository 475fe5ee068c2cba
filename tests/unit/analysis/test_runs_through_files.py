"""Where all tasks run on this machine, runs go through files, and tasks run side by side: with the same
findings, and nothing left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest

from fakes.in_process import InProcess
from kaput.analysis import job, run
from kaput.analysis.pipeline import analyse
from kaput.analysis.runs import clocks
from kaput.analysis.runs.names import EVENTS
from kaput.analysis.spark import in_process
from kaput.analysis.spark.in_process import LocalRdd
from kaput.errors import EvidenceError
from kaput.evidence.folder import RunFolder
from kaput.evidence.reading import check
from spark.planted import planted


class _Twice(LocalRdd):
    """Runs each task twice and takes what the second attempt yields: the first one's executor was lost."""

    def mapPartitions(self, step: Callable[[Iterable[Any]], Iterator[Any]]) -> LocalRdd:
        for part in self.parts:
            assert list(step(iter(part)))
        return super().mapPartitions(step)


class _OnThisMachine(InProcess):
    """Says that it is a local Spark, which keeps its files in `directory`."""

    master = "local[2]"

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self._directory = directory
        self.seen = 0  # the most files there

    def getConf(self) -> dict[str, str]:
        return {"spark.local.dir": f"{self._directory},/elsewhere"}

    def parallelize(self, items: Any, count: int) -> LocalRdd:
        return _Twice(self, super().parallelize(items, count).parts)

    def runJob(self, *job: Any) -> list[Any]:
        self.seen = max(self.seen, len(list(self._directory.glob("kaput-runs-*/*"))))
        return super().runJob(*job)


def test_findings_are_the_same_through_files_even_if_tasks_are_repeated(tmp_path: Path) -> None:
    """As without files, to the last letter; each attempt writes its own file, and all of them are removed."""
    folder = RunFolder(planted(tmp_path / "run", 20_000, 0.001))
    expected = analyse(check(folder), InProcess())
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    spark: Any = _OnThisMachine(scratch)
    assert analyse(check(folder), spark).to_json() == expected.to_json()
    assert spark.seen == 2
    assert not list(scratch.iterdir())


def test_processes_of_spark_return_what_tasks_have_freed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked after every task, since they live on; the heap of a program that judges is left to it."""
    ended: list[None] = []
    for module in (job, in_process):
        monkeypatch.setattr(module, "after_task", lambda: ended.append(None))
    folder = RunFolder(planted(tmp_path / "run", 1_000, 0.001))
    analyse(check(folder), InProcess())
    assert not ended
    spark: Any = _OnThisMachine(tmp_path)
    analyse(check(folder), spark)
    assert len(ended) >= 3  # of rows, messages and places


def test_findings_are_the_same_from_tasks_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of one task after the other, to the last letter, with every table; and progress counts the tasks."""
    folder = RunFolder(planted(tmp_path / "run", 10_000, 0.001))
    monkeypatch.setattr(run, "SMALL_ROWS", 1_000)
    monkeypatch.setattr(run, "TASK_ROWS", 5_000)
    monkeypatch.setattr(run, "_PART_MESSAGES", 3_000)
    expected, tables = analyse(check(folder), InProcess(1)), _tables(folder)
    for _ in range(2):
        spark = InProcess(4)
        assert analyse(check(folder), spark).to_json() == expected.to_json()
        assert _tables(folder) == tables
        stages = spark.stages
        assert max(stage.numTasks for stage in stages) > 4
        assert all(stage.numTasks == stage.numCompletedTasks for stage in stages)


def _tables(folder: RunFolder) -> dict[str, Any]:
    """What is in the tables of analysis/, in any order of rows."""
    paths = sorted(folder.analysis.iterdir())
    return {path.name: sorted(map(repr, pq.read_table(path).to_pylist())) for path in paths if path.is_dir()}


def test_tasks_run_at_the_same_time_and_an_error_is_raised() -> None:
    """Two meet each other; the error of one reaches the caller."""
    spark, barrier = InProcess(2), Barrier(2, timeout=60)

    def meet(part: Iterable[int]) -> Iterator[int]:
        barrier.wait()
        yield from part

    def fail(part: Iterable[int]) -> Iterator[int]:
        yield from part
        raise EvidenceError("damaged")

    assert spark.parallelize(range(4), 4).mapPartitions(meet).collect() == [0, 1, 2, 3]
    with pytest.raises(EvidenceError, match="damaged"):
        spark.parallelize(range(4), 4).mapPartitions(fail).collect()


def test_what_a_task_keeps_for_its_next_row_group_is_of_its_own_thread() -> None:
    """Another task that reads other members' deliveries at the same time neither gets nor replaces it."""
    events = pl.DataFrame(schema=dict(EVENTS))
    mine, other = (
        pl.DataFrame({"group": [0], "member": [member], "place": [0], "topic": [0]}) for member in (0, 1)
    )
    kept = clocks._timelines(events, mine)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(clocks._timelines, events, other).result() is not kept
    assert clocks._timelines(events, mine) is kept
