"""Last stable offsets are sampled while a run with transactions records."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from kaput.analysis.facts.coordinators import find
from kaput.errors import LabError
from kaput.evidence.recorder import Recorder
from kaput.runner.samplers import StableSampler


class _Cluster:
    """One partition, whose offsets are set."""

    def __init__(self) -> None:
        self.offsets: tuple[int, int] | None = (0, 0)

    def reachable_stable_offsets(self, topics: Sequence[str]) -> dict[tuple[str, int], tuple[int, int]]:
        if self.offsets is None:
            raise LabError("no broker answered")
        return {(topics[0], 0): self.offsets}


def test_stalled_last_stable_offset_is_detected(tmp_path: Path) -> None:
    """A row each, of one moment; a look that nobody answers has none, and ends no standstill."""
    cluster = _Cluster()
    with Recorder(tmp_path, "samples", "stable") as recorder:
        sampler = StableSampler(cluster, ["payments"], recorder)
        for offsets in ((5, 5), (7, 9), None, (7, 12), (12, 12)):
            cluster.offsets = offsets
            sampler.look()
    with pa.ipc.open_stream(tmp_path / "evidence" / "samples" / "stable.arrows") as stream:
        rows = stream.read_all().to_pylist()
    assert len(rows) == 8 and {row["source"] for row in rows} == {"kaput"}
    (held,) = find(rows)
    assert (held.place, held.offset) == (("payments", 0), 7)
    moments = sorted({row["at_ns"] for row in rows})
    assert (held.from_ns, held.to_ns) == (moments[1], moments[2])
