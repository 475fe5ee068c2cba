"""The filters in Spark against those in Python, on the same traffic, with a crash in the middle."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from dedup_scoring import Score, decisions, score, troubles
from dedup_streams import NO_WORKER, Sink, replay, write_batches
from dedup_traffic import Delivery
from pyspark import SparkContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from kaput.clients.dedup.filters import HighWaterMark, Scope
from kaput.clients.dedup.streaming import every_id, high_water, use_rocksdb
from kaput.errors import UsageError

BATCHES, CRASH_AT = 4, 1


@pytest.fixture
def session(spark: SparkContext) -> SparkSession:
    """Of the shared Spark, with the state in RocksDB."""
    session = SparkSession(spark)
    use_rocksdb(session)
    return session


@pytest.fixture
def log() -> list[Delivery]:
    """Copies next to each other, and some in another micro-batch."""
    return troubles(3, messages=300)["a producer comes back with its memory"].read()


def scored(log: list[Delivery], positions: list[int]) -> Score:
    """Of the positions that passed."""
    return score(log, (log[position].message for position in positions))


def test_batch_repeated_after_a_crash_is_deduplicated(
    session: SparkSession, log: list[Delivery], tmp_path: Path
) -> None:
    """Marks in Spark's state decide as those in Python, across a crash between effects and commit."""
    write_batches(log, tmp_path / "log", BATCHES)
    sink = Sink(crash_at=CRASH_AT)
    crashes = replay(session, tmp_path / "log", high_water, sink, tmp_path / "checkpoint")
    assert crashes == 1
    plain = decisions(HighWaterMark(Scope.PARTITION), log)
    assert sorted(sink.replaced) == [position for position, new in enumerate(plain) if new]
    assert scored(log, sink.replaced) == Score(0, 0)
    assert scored(log, sink.appended) == Score(len(sink.by_batch[CRASH_AT]), 0)


class Hesitant(Sink):
    """Fails so many times as Spark does when a Python worker does not come."""

    failing = 0

    def __call__(self, output: DataFrame, batch: int) -> None:
        if self.failing:
            self.failing -= 1
            raise SystemError(NO_WORKER)
        super().__call__(output, batch)


@pytest.mark.long  # of a helper of these tests
def test_a_worker_that_does_not_come_in_time_is_no_crash(
    session: SparkSession, log: list[Delivery], tmp_path: Path
) -> None:
    """The query begins again, but not for ever."""
    write_batches(log, tmp_path / "log", 2)
    sink = Hesitant()
    sink.failing = 2
    assert replay(session, tmp_path / "log", for_a_day, sink, tmp_path / "checkpoint") == 0
    assert scored(log, sink.appended) == Score(0, 0)
    never = Hesitant(crash_at=0)
    never.failing = 3
    with pytest.raises(StreamingQueryException, match=NO_WORKER):
        replay(session, tmp_path / "log", for_a_day, never, tmp_path / "other", most=2)
    assert never.failing == 0 and never.appended == []


def test_ids_are_remembered_across_a_restart(
    session: SparkSession, log: list[Delivery], tmp_path: Path
) -> None:
    """The query ends after half of the log and begins again from its checkpoint: no mistake."""
    write_batches(log, tmp_path / "all", BATCHES)
    (tmp_path / "log").mkdir()
    sink, files = Sink(), sorted((tmp_path / "all").iterdir())
    for half in (files[:2], files[2:]):
        for file in half:
            file.rename(tmp_path / "log" / file.name)
        assert len(sink.by_batch) < BATCHES
        replay(session, tmp_path / "log", for_a_day, sink, tmp_path / "checkpoint")
    assert scored(log, sink.appended) == Score(0, 0)


def test_duplicate_after_the_retention_delay_passes(session: SparkSession, tmp_path: Path) -> None:
    """Ten messages, thirty others, and copies of the ten: what was remembered for a day drops them."""
    once = troubles(0, messages=40)["none"].read()
    log = [*once, *once[:10]]
    write_batches(log, tmp_path / "log", 5)
    long, short = Sink(), Sink()
    replay(session, tmp_path / "log", for_a_day, long, tmp_path / "long")
    replay(
        session, tmp_path / "log", lambda records: every_id(records, "5 seconds"), short, tmp_path / "short"
    )
    assert scored(log, long.appended) == Score(0, 0)
    assert scored(log, short.appended) == Score(10, 0)


def test_a_new_record_older_than_the_watermark_is_dropped(session: SparkSession, tmp_path: Path) -> None:
    """Two partitions, one read after the other: the second one's messages are late, and never pass."""
    made = troubles(0, messages=40)["none"].read()
    other = [Delivery(one.record._replace(partition=1, id=-at), 100 + at) for at, one in enumerate(made)]
    write_batches([*made, *other], tmp_path / "log", 4, created=True)
    sink = Sink()
    replay(
        session, tmp_path / "log", lambda records: every_id(records, "5 seconds"), sink, tmp_path / "state"
    )
    found = scored([*made, *other], sink.appended)
    assert found.passed == 0 and 0 < found.dropped <= 40


def for_a_day(records: DataFrame) -> DataFrame:
    """Longer than any log here."""
    return every_id(records, "1 day")


@pytest.mark.parametrize("module", ["pandas", "google.protobuf"])
def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    """PySpark itself says only that a worker exited."""
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UsageError, match=rf"needs {module}: pip install 'kaput\[dedup-spark\]'"):
        high_water(None)
