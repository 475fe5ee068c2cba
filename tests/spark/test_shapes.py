"""The analysis counts evidence of odd shapes as the oracle does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fakes.comparing import differences
from fakes.histories import History, at, write_table
from fakes.in_process import InProcess
from kaput.analysis.pipeline import analyse
from kaput.evidence.folder import RunFolder
from kaput.evidence.reading import check
from property.agreement import of_history, summary, tables


def _sparse() -> History:
    """Seqs a billion apart, and one that is far beyond the others."""
    history = History(groups={"billing": True})
    for offset, seq in enumerate([*range(0, 40_000_000_000, 1_000_000_000), 2**60]):
        history.acked(0, seq, offset, attempt_ns=10**18 + offset, done_ns=10**18 + offset + 500)
        history.handed(offset, 0, seq, 1_000 + offset)
    return history


def _unequal() -> History:
    """300 producers, each with one message more than the one before, of a few."""
    history = History(producers=[{"topic": "orders", "acks": "all", "count": 300}], groups={"billing": True})
    offset = 0
    for producer in range(300):
        for seq in range(producer % 7):
            history.acked(producer, seq, offset)
            offset += 1
    return history


def _doubled() -> History:
    """Every message stored three times and delivered 300 times: more than a byte can count."""
    history = History(groups={"billing": True})
    for seq in range(4):
        history.sent(0, seq, seq)
    for offset in range(12):
        history.stored(offset, 0, offset % 4)
    for time in range(300):
        for offset in range(4):
            history.handed(offset, 0, offset, 100 + 10 * time + offset)
    return history


def _all_lost() -> History:
    """Everything acknowledged under an epoch that was overwritten by an empty one."""
    history = History(producers=[{"topic": "orders", "acks": "1"}], groups={"billing": True})
    for seq in range(200):
        history.sent(0, seq, seq)
    history.add("end_offsets", topic="orders", partition=0, end_offset=0, drained_to=0)
    return history.led(1, 0, -5, [1, 2, 3]).led(2, 1, 50, [2, 3])


def _unread() -> History:
    history = History(groups={"billing": False})
    for seq in range(200):
        history.sent(0, seq, seq)
    return history.add("end_offsets", topic="orders", partition=0, end_offset=200, drained_to=0)


def _empty() -> History:
    return History(groups={"billing": True})


def _nobody_knows_where() -> History:
    """Failures without a partition, while one partition that only the log knows was not read."""
    history = History(topics=[{"name": "orders", "partitions": 2}], groups={"billing": True})
    for seq in range(5):
        history.sent(0, seq, None, "failed", partition=None, error="TOO_LARGE")
    history.sent(0, 5, None, "acked", partition=None)
    history.stored(0, 0, 5, partition=7)
    history.add("end_offsets", topic="orders", partition=0, end_offset=0, drained_to=0)
    return history.add("end_offsets", topic="orders", partition=1, end_offset=0, drained_to=0)


def _in_turns() -> History:
    """Two producers take turns through a fault, each in a file of its own."""
    history = History(producers=[{"topic": "orders", "acks": "1", "count": 2}], groups={"billing": True})
    for seq in range(150):
        for producer in range(2):
            ms = 1 + seq / 10 + producer / 20 + (40 if seq >= 70 else 0)
            history.acked(producer, seq, 2 * seq + producer, attempt_ns=at(ms), done_ns=at(ms + 1))
    return history.led(1, 0, -10, [1, 2]).fault(1, 0.5, 2_000).led(2, 1, 0.7, [2])


def _a_file_each(folder: RunFolder, history: History) -> None:
    """The sends as producers record them: what is in one file is in order of time once it is read."""
    (folder.table("sends") / "part-0.parquet").unlink()
    for producer in range(2):
        mine = [row for row in history.rows["sends"] if row["producer"] == producer]
        write_table(folder, "sends", mine, f"producer-{producer}")


SHAPES = [_in_turns, _sparse, _unequal, _doubled, _all_lost, _unread, _empty, _nobody_knows_where]


@pytest.mark.parametrize("shape", SHAPES)
def test_analysis_equals_oracle(shape: Callable[[], History], tmp_path: Path, played: InProcess) -> None:
    """Counts, fates, causes and the ledger."""
    history = shape()
    if not history.rows["end_offsets"]:
        history.read_to_end()
    folder = history.write(tmp_path)
    if shape is _in_turns:
        _a_file_each(folder, history)
    found = summary(analyse(check(folder), played)) | tables(folder, set())
    assert differences(found, of_history(history) | {"causes": {}}) == {}
