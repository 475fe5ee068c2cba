"""Streams are read on while the real recorder appends to them; whatever is half-written waits."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from kaput.dashboard.watching.reader import MOST, LiveSteps
from kaput.evidence import tails
from kaput.evidence.attempts import AttemptWriter
from kaput.evidence.recorder import Recorder
from kaput.evidence.tails import AttemptsTail, StreamTail

SECOND = 1_000_000_000
COLUMNS = ("outcome", "done_ns")


def _stream(path: Path) -> Path:
    return path / "evidence" / "sends" / "p.arrows"


def _record(recorder: Recorder, seqs: range, outcome: str = "acked") -> None:
    for seq in seqs:
        recorder.row(0, seq, f"topic-{seq % 3}", 0, seq, seq + 5, outcome, seq, None)
    recorder.flush()


def _taken(tail: StreamTail) -> list[tuple[str, int]]:
    return [(row["outcome"], row["done_ns"]) for batch in tail.take() for row in batch.to_pylist()]


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    with Recorder(tmp_path, "sends", "p") as made:
        yield made


def _tail(path: Path) -> StreamTail:
    return StreamTail(os.open(path, os.O_RDONLY), COLUMNS)


def test_flushed_rows_are_read_immediately_and_once(tmp_path: Path, recorder: Recorder) -> None:
    """New words come in dictionaries between the batches."""
    tail = _tail(_stream(tmp_path))
    assert _taken(tail) == []
    _record(recorder, range(3))
    assert _taken(tail) == [("acked", 5), ("acked", 6), ("acked", 7)]
    assert _taken(tail) == []
    _record(recorder, range(3, 5), "failed")
    _record(recorder, range(5, 6), "unknown")
    assert _taken(tail) == [("failed", 8), ("failed", 9), ("unknown", 10)]
    tail.close()


def test_stream_arriving_byte_by_byte_yields_each_row_once(tmp_path: Path, recorder: Recorder) -> None:
    """Wherever a write is cut."""
    for number, outcome in enumerate(("acked", "failed", "unknown")):
        _record(recorder, range(number * 2, number * 2 + 2), outcome)
    whole, slow = _stream(tmp_path).read_bytes(), tmp_path / "slow"
    slow.touch()
    tail, rows = _tail(slow), []
    with slow.open("ab", buffering=0) as file:
        for at in range(0, len(whole), 7):
            file.write(whole[at : at + 7])
            rows += _taken(tail)
    assert [done for _, done in rows] == [5, 6, 7, 8, 9, 10]
    assert [outcome for outcome, _ in rows[::2]] == ["acked", "failed", "unknown"]
    tail.close()


def test_deleted_stream_is_read_to_its_end(tmp_path: Path) -> None:
    """Sealing removes the name; what was not read yet is read."""
    with Recorder(tmp_path, "sends", "p") as recorder:
        tail = _tail(_stream(tmp_path))
        _record(recorder, range(2))
    _stream(tmp_path).unlink()
    assert len(_taken(tail)) == 2
    assert _taken(tail) == [] and not tail.broken
    tail.close()


def test_large_stream_is_read_in_chunks(
    tmp_path: Path, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look reads a part, says that there is more, and comes to the end."""
    for start in range(0, 5000, 500):
        _record(recorder, range(start, start + 500))
    monkeypatch.setattr(tails, "AT_ONCE", 30_000)
    tail, rows, looks = _tail(_stream(tmp_path)), 0, 0
    while True:
        found = len(_taken(tail))
        rows, looks = rows + found, looks + 1
        if not tail.more:
            break
    assert rows == 5000 and looks > 5
    tail.close()


@pytest.mark.parametrize(
    "damage", [b"", b"\0" * 64, b"\xff" * 64, b"nothing that Arrow knows" * 9, b"\x01\0\0\0a"]
)
def test_damaged_stream_yields_no_rows_and_no_error(tmp_path: Path, damage: bytes) -> None:
    """From its first byte on, or behind a batch."""
    path = tmp_path / "damaged"
    path.write_bytes(damage)
    tail = _tail(path)
    assert [_taken(tail) for _ in range(3)] == [[], [], []]
    tail.close()


def test_a_stream_without_the_columns_is_left_alone(tmp_path: Path, recorder: Recorder) -> None:
    _record(recorder, range(2))
    tail = StreamTail(os.open(_stream(tmp_path), os.O_RDONLY), ("no such column",))
    assert list(tail.take()) == [] and tail.broken
    tail.close()


def test_attempts_are_read_while_they_are_made(tmp_path: Path) -> None:
    """In the mapped file of the real writer, beyond the first piece that it maps."""
    writer = AttemptWriter(tmp_path, 0, "orders")
    tail = AttemptsTail(os.open(tmp_path / "evidence" / "sends" / "producer-0.attempts", os.O_RDONLY))
    assert len(tail.take()) == 0
    writer.attempt(0, 70)
    writer.attempt(1, 71)
    assert tail.take().tolist() == [70, 71]
    for seq in range(2, 300_000):
        writer.attempt(seq, 70 + seq)
    assert tail.take().tolist() == list(range(72, 300_070)) and tail.count == 300_000
    assert len(tail.take()) == 0
    writer.close()
    tail.close()


def test_late_rows_update_their_own_step() -> None:
    """Late rows change a step of the past, and that step alone is new."""
    steps = LiveSteps(100 * SECOND)
    steps.add("sent", np.array([100, 100, 101], np.int64) * SECOND)
    first = steps.table(1)
    assert [(row.number, row.sent) for row in first.rows] == [(0, 2), (1, 1)]
    steps.add("sent", np.array([100 * SECOND + 5], np.int64))
    second = steps.table(2)
    assert [(row.number, row.sent) for row in second.since(1)] == [(0, 3)]
    assert len(second.since(0)) == 2 and second.since(2) == []


def test_moments_outside_of_a_run_are_left_out() -> None:
    """Before its begin, or years later: damaged."""
    steps = LiveSteps(100 * SECOND)
    steps.add("acked", np.array([99 * SECOND, 2**62, 100 * SECOND], np.int64))
    assert [row.acked for row in steps.table(1).rows] == [1]


def test_memory_use_is_bounded_in_a_long_run() -> None:
    """Steps widen, nothing is lost, and everything is new to everybody."""
    steps = LiveSteps(0)
    steps.add("sent", np.arange(MOST, dtype=np.int64) * SECOND)
    steps.table(1)
    steps.add("sent", np.array([10 * MOST], np.int64) * SECOND)
    table = steps.table(2)
    assert len(table.rows) <= MOST and table.width_s == 16
    assert sum(row.sent for row in table.rows) == MOST + 1
    assert table.since(1) == list(table.rows)


def test_percentiles_are_right_to_a_few_percent() -> None:
    """Of a known distribution, in one step and after widening."""
    steps, latencies = LiveSteps(0), np.arange(1, 1001, dtype=np.int64) * 1_000_000
    done = np.full(1000, 10 * SECOND, np.int64)
    steps.add_latencies(done - latencies, done)
    row = steps.table(1).rows[10]
    assert row.p50 == pytest.approx(500, rel=0.08) and row.p99 == pytest.approx(990, rel=0.08)
    steps.add("sent", np.array([2 * MOST], np.int64) * SECOND)
    assert [r.p99 for r in steps.table(2).rows if r.p99] == [row.p99]
