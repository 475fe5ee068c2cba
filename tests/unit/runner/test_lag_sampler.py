"""Lag is sampled while a run records: of every partition that answers, and of nothing else."""

from __future__ import annotations

import errno
import threading
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from kaput.core import TopicPartition
from kaput.errors import LabError
from kaput.evidence.recorder import Recorder
from kaput.runner.samplers import LagSampler, Sampler
from waiting import eventually


class _Cluster:
    """Partition 1 of orders has no commit, partition 2 no leader."""

    def __init__(self, answers: bool = True) -> None:
        self.answers, self.asked = answers, 0

    def committed(self, group: str) -> dict[TopicPartition, int]:
        self.asked += 1
        if not self.answers:
            raise LabError("no coordinator")
        return {TopicPartition("orders", 0): 7, TopicPartition("orders", 2): 1}

    def reachable_log_ends(self, topics: Sequence[str]) -> dict[TopicPartition, int]:
        return {TopicPartition(topic, partition): 10 for topic in topics for partition in (0, 1)}


def _rows(path: Path) -> list[tuple[str, dict[str, str], float]]:
    with pa.ipc.open_stream(path / "evidence" / "samples" / "lag.arrows") as stream:
        rows = stream.read_all().to_pylist()
    return [(row["name"], dict(row["labels"]), row["value"]) for row in rows]


def test_lag_is_sampled_for_each_responding_partition(tmp_path: Path) -> None:
    """Committed offset, log end and lag; a group that has committed nothing has all before it."""
    with Recorder(tmp_path, "samples", "lag") as recorder:
        LagSampler(_Cluster(), {"billing": ["orders"]}, recorder).look()
    labels = [{"group": "billing", "topic": "orders", "partition": p} for p in ("0", "1")]
    assert _rows(tmp_path) == [
        ("log_end_offset", labels[0], 10.0),
        ("committed_offset", labels[0], 7.0),
        ("lag", labels[0], 3.0),
        ("log_end_offset", labels[1], 10.0),
        ("lag", labels[1], 10.0),
    ]


def test_no_sample_without_a_response(tmp_path: Path) -> None:
    """And the sampler goes on, until it is left."""
    cluster = _Cluster(answers=False)
    with (
        Recorder(tmp_path, "samples", "lag") as recorder,
        LagSampler(cluster, {"billing": ["orders"]}, recorder, every_s=0.01),
    ):
        assert eventually(lambda: cluster.asked > 2)
    assert _rows(tmp_path) == []


class _OnAFullDisk(Sampler):
    """Cannot write what it has seen."""

    looked = 0

    def look(self) -> None:
        self.looked += 1
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_ends_the_sampling_and_nothing_else() -> None:
    """No traceback in the middle of a run, and nothing is written behind half a row."""
    raised: list[object] = []
    before, threading.excepthook = threading.excepthook, raised.append
    try:
        with _OnAFullDisk("full", 0.001) as sampler:
            assert eventually(lambda: sampler.looked > 0 and not sampler._thread.is_alive())
    finally:
        threading.excepthook = before
    assert sampler.looked == 1 and raised == []
