"""Notes partitions whose leader stops acknowledging, seconds after it does: before any alert, since most of
these end by themselves with an election.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kaput.core import SECOND
from kaput.monitor.signals import Sample
from kaput.watch.message_samples import UNACKNOWLEDGED

STALLED_S = 2.5  # samples are a second apart, so a stall is noted within four


@dataclass(frozen=True)
class _Stall:
    """`since_ns`: the last acknowledgement before it; `leader`: who led when it was noted, -1: nobody."""

    since_ns: int
    leader: int


class Stalls:
    """Calls `note` when messages of a partition wait and none is acknowledged, and when one is again."""

    def __init__(self, note: Callable[[str], Any]) -> None:
        self._note = note
        self._stalls: dict[int, _Stall] = {}

    def observe(self, samples: Iterable[Sample], leaders: Mapping[int, int]) -> None:
        """Takes the latest samples; those of UNACKNOWLEDGED count. `leaders`: by partition, -1: none."""
        for sample in samples:
            if sample.name == UNACKNOWLEDGED:
                self._observe(int(sample.labels["partition"]), sample, leaders)

    def _observe(self, partition: int, sample: Sample, leaders: Mapping[int, int]) -> None:
        stall, topic = self._stalls.get(partition), sample.labels["topic"]
        leader = leaders.get(partition, -1)
        if stall is None and sample.value >= STALLED_S:
            self._stalls[partition] = _Stall(sample.at_ns - int(sample.value * SECOND), leader)
            led = "no leader" if leader == -1 else f"led by broker {leader}"
            self._note(f"{topic}/{partition} ({led}): nothing acknowledged for {sample.value:.1f} s")
        elif stall is not None and sample.value < STALLED_S:
            del self._stalls[partition]
            lasted = (sample.at_ns - stall.since_ns) / SECOND
            led = "" if leader in (-1, stall.leader) else f", now by broker {leader}"
            self._note(f"{topic}/{partition}: acknowledged again after {lasted:.1f} s{led}")
