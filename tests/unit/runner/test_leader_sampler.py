"""Leaders and ISRs are sampled while a run records, where they have changed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from kaput.cluster.admin import PartitionState
from kaput.core import TopicPartition
from kaput.errors import LabError
from kaput.evidence.recorder import Recorder
from kaput.runner.samplers import LeaderSampler
from waiting import eventually


class _Cluster:
    """Partition 1 of orders changes its leader."""

    def __init__(self, answers: bool = True) -> None:
        self.answers, self.asked = answers, 0
        self.states = {
            TopicPartition("orders", 0): PartitionState(1, [1, 2], [2, 1], 4),
            TopicPartition("orders", 1): PartitionState(2, [1, 2], [1, 2], 0),
        }

    def partitions(self, topics: Iterable[str]) -> dict[TopicPartition, PartitionState]:
        self.asked += 1
        if not self.answers:
            raise LabError("no broker answered")
        return dict(self.states)


def _rows(path: Path) -> list[tuple[str, str, str, float]]:
    with pa.ipc.open_stream(path / "evidence" / "samples" / "leaders.arrows") as stream:
        rows = [(row["name"], dict(row["labels"]), row["value"]) for row in stream.read_all().to_pylist()]
    assert {name for name, _, _ in rows} <= {"leader"}
    return [(labels["partition"], labels["leader_epoch"], labels["isr"], value) for _, labels, value in rows]


def test_only_changed_leaders_and_isrs_are_sampled(tmp_path: Path) -> None:
    """All of it at first; a partition without a leader has -1."""
    cluster = _Cluster()
    with Recorder(tmp_path, "samples", "leaders") as recorder:
        sampler = LeaderSampler(cluster, ["orders"], recorder)
        sampler.look()
        sampler.look()
        cluster.states[TopicPartition("orders", 1)] = PartitionState(None, [1, 2], [], 1)
        sampler.look()
    assert _rows(tmp_path) == [("0", "4", "1,2", 1.0), ("1", "0", "1,2", 2.0), ("1", "1", "", -1.0)]


def test_sampler_continues_without_a_response(tmp_path: Path) -> None:
    cluster = _Cluster(answers=False)
    with (
        Recorder(tmp_path, "samples", "leaders") as recorder,
        LeaderSampler(cluster, ["orders"], recorder, every_s=0.01),
    ):
        assert eventually(lambda: cluster.asked > 2)
    assert _rows(tmp_path) == []
