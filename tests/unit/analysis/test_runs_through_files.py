"""Where all tasks run on this machine, runs go through files: with the same findings, and nothing left."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from fakes.in_process import InProcess
from kaput.analysis.pipeline import analyse
from kaput.analysis.spark.in_process import LocalRdd
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
        self._directory = directory
        self.seen = 0  # the most files there

    def getConf(self) -> dict[str, str]:
        return {"spark.local.dir": f"{self._directory},/elsewhere"}

    def parallelize(self, items: Any, count: int) -> LocalRdd:
        return _Twice(super().parallelize(items, count).parts)

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
