"""One analysis for every shape: rows and files in any order, much out of order, everything lost.

Each of these once needed another way than the usual one; they are judged like any other run: by a session
that all share, or, where how tasks share them is not the question, without one.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import SparkContext

from fakes.histories import History
from fakes.in_process import InProcess
from kaput.analysis.pipeline import analyse
from kaput.evidence.folder import RunFolder
from kaput.evidence.reading import check
from kaput.evidence.schemas import TABLES
from spark.planted import planted

MESSAGES = 40_000
_ROW_GROUP = 5_000
_START_NS = 1_700_000_000_000_000_000


def _judged(folder: Path, spark: Any) -> dict[str, Any]:
    """In the session that is there, or without one."""
    findings: dict[str, Any] = json.loads(analyse(check(RunFolder(folder)), spark).to_json())
    return findings


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder with everything planted."""
    return planted(tmp_path_factory.mktemp("made") / "run", MESSAGES, 0.0005)


@pytest.fixture(scope="module")
def expected(made: Path) -> dict[str, Any]:
    """What is found in it as it was written, in kaput's own process, as in any small run."""
    return _judged(made, InProcess())


@pytest.mark.long  # its sibling: the next one, of rows in another order
def test_spark_finds_what_is_found_without_it(
    made: Path, expected: dict[str, Any], spark: SparkContext
) -> None:
    assert _judged(made, spark) == expected


def _dealt(rows: int, _random: np.random.Generator) -> list[np.ndarray[Any, Any]]:
    return [np.arange(start, rows, 2) for start in (0, 1)]


def _shuffled(rows: int, random: np.random.Generator) -> list[np.ndarray[Any, Any]]:
    return np.array_split(random.permutation(rows), 3)


Way = Callable[[int, np.random.Generator], list[np.ndarray[Any, Any]]]
SHAPES: dict[str, tuple[tuple[str, ...], Way]] = {
    "files of the log overlap in their offsets": (("log",), _dealt),
    "acknowledgements in no order of time": (("sends",), _shuffled),
    "deliveries of one member overlap in time": (("deliveries",), _dealt),
    "nothing in any order": (("sends", "log", "deliveries"), _shuffled),
}
*SINGLE, ALL_AT_ONCE = SHAPES


@pytest.mark.parametrize(
    "shape",
    [*(pytest.param(shape, marks=pytest.mark.long) for shape in SINGLE), ALL_AT_ONCE],
)
def test_rows_in_any_order_are_judged_alike(
    shape: str, made: Path, expected: dict[str, Any], tmp_path: Path, spark: SparkContext
) -> None:
    """The findings are the same to the last example."""
    shutil.copytree(made, tmp_path / "run")
    folder, random = RunFolder(tmp_path / "run"), np.random.default_rng(1)
    tables, way = SHAPES[shape]
    for name in tables:
        whole = pq.read_table(folder.table(name), schema=TABLES[name].schema)
        shutil.rmtree(folder.table(name))
        folder.table(name).mkdir()
        for number, rows in enumerate(way(whole.num_rows, random)):
            path = folder.table(name) / f"part-{number}.parquet"
            pq.write_table(whole.take(pa.array(rows)), path, row_group_size=_ROW_GROUP)
    assert _judged(folder.path, spark) == expected


def _write(folder: RunFolder, name: str, count: int, **columns: object) -> None:
    """A table of so many rows: columns as arrays, or one value for all rows."""
    schema = TABLES[name].schema
    arrays = [
        pa.array(value, field.type)
        if isinstance(value, np.ndarray)
        else pa.repeat(pa.scalar(value, field.type), count)
        for field in schema
        for value in [columns.get(field.name)]
    ]
    path = folder.table(name) / "part-0.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(arrays, schema=schema), path, row_group_size=100_000)


def _folder(path: Path, count: int, end: int) -> RunFolder:
    history = History(producers=[{"topic": "orders", "acks": "1", "messages": count}])
    history.acked(0, 0, 0).led(1, 0, -5, [1, 2, 3]).led(2, 1, 9_000, [2, 3])
    history.add("end_offsets", topic="orders", partition=0, end_offset=end, drained_to=end)
    return history.write(path)


def _send(folder: RunFolder, offset: np.ndarray[Any, Any]) -> None:
    count = len(offset)
    at_ns = _START_NS + np.arange(count) * 1_000
    same = {"producer": 0, "topic": "orders", "partition": 0, "outcome": "acked"}
    _write(
        folder,
        "sends",
        count,
        seq=np.arange(count),
        attempt_ns=at_ns,
        done_ns=at_ns + 500_000,
        offset=offset,
        **same,
    )


@pytest.mark.parametrize("distance", [pytest.param(320, marks=pytest.mark.long), 30_000])
def test_many_reordered_messages_are_counted(distance: int, tmp_path: Path) -> None:
    """Permuted within stretches of so many rows: as many are late as a running maximum says."""
    count, random = 120_000, np.random.default_rng(7)
    seq = np.concatenate(
        [random.permutation(np.arange(low, low + distance)) for low in range(0, count, distance)]
    )
    folder = _folder(tmp_path, count, count)
    same = {
        "topic": "orders",
        "partition": 0,
        "leader_epoch": 0,
        "timestamp_ms": 0,
        "producer": 0,
        "intact": True,
    }
    _write(folder, "log", count, offset=np.arange(count), seq=seq, **same)
    _send(folder, np.argsort(seq))
    counts = {a["name"]: a["count"] for a in _judged(tmp_path, InProcess())["anomalies"] if a["count"]}
    assert counts == {"reordered": int(np.count_nonzero(seq < np.maximum.accumulate(seq)))}


def test_total_loss_has_a_cause_for_each_message(tmp_path: Path) -> None:
    """Acknowledged under an epoch that an empty one overwrote: each loss has its cause."""
    count = 120_000
    folder = _folder(tmp_path, count, 0)
    _write(folder, "log", 0)
    _send(folder, np.arange(count))
    (lost,) = [a for a in _judged(tmp_path, InProcess())["anomalies"] if a["name"] == "lost"]
    assert (lost["count"], lost["causes"], lost["permitted"]) == (count, {"deposed-leader": count}, count)
    table = pq.read_table(tmp_path / "analysis" / "lost")
    assert table["seq"].to_pylist() == list(range(count))
    (window,) = pq.read_table(tmp_path / "analysis" / "windows").to_pylist()
    assert (window["first_seq"], window["last_seq"], window["lost"]) == (0, count - 1, count)
