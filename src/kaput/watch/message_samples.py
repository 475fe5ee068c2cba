"""Samples of signals about the messages of a watch.

Attempts and outcomes come from the producers' counters, which are current even if Spark is not running;
losses, duplicates and the like come from the ledger.

Also notes partitions whose leader stops acknowledging, seconds after it does: before any alert, since most of
these end by themselves with an election.
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from kaput.core import SECOND
from kaput.monitor.series import SeriesTable
from kaput.monitor.signals import Sample

UNACKNOWLEDGED = "kaput_unacknowledged_seconds"
LOST_AFTER_NS = 30 * SECOND  # a message that is missing for this long counts as lost
_LATENCIES = {"ack": "kaput_produce_latency_seconds", "end_to_end": "kaput_end_to_end_latency_seconds"}
_PARTITION_SIGNALS = {
    "stored": "kaput_messages_received_total",
    "missing": "kaput_messages_missing",
    "late": "kaput_messages_late_total",
    "duplicated": "kaput_messages_duplicated_total",
    "reordered": "kaput_messages_reordered_total",
}


class SendCounts(NamedTuple):
    """Counts of one partition: messages attempted, acknowledged, failed, and with any outcome (`ended`)."""

    attempted: int
    acked: int
    failed: int
    ended: int


class MessageSamples:
    """Samples of one topic, or of several together under the name `all`. Counters never decrease."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        # By partition: the last number of acknowledgements, and since when it is unchanged (ns).
        self._waits: dict[int, tuple[int, int]] = {}
        self._missing: deque[tuple[int, int]] = deque()
        self._lost = 0
        self._observed: dict[tuple[str, int, float], int] = {}

    def of_producers(self, sent: Mapping[int, SendCounts], at_ns: int | None = None) -> Iterator[Sample]:
        """Samples from the producers' counts."""
        at_ns = at_ns or time.time_ns()
        for partition, one in sent.items():
            yield self._sample("kaput_messages_sent_total", one.attempted, partition, at_ns)
            yield self._sample("kaput_messages_acked_total", one.acked, partition, at_ns)
            yield self._sample("kaput_messages_failed_total", one.failed, partition, at_ns)
            waited = self._waiting_ns(partition, one, at_ns) / SECOND
            yield self._sample(UNACKNOWLEDGED, waited, partition, at_ns)

    def of_ledger(self, status: Mapping[str, Any]) -> Iterator[Sample]:
        """Samples from the status of the ledger; empty before it has begun."""
        if "places" not in status:
            return
        at_ns = status["at_ns"]
        for place in status["places"]:
            labels = {"topic": place["topic"], "partition": str(place["partition"])}
            for word, name in _PARTITION_SIGNALS.items():
                yield Sample(name, place[word], at_ns, labels)
        yield self._sample(
            "kaput_messages_lost_total", self._lost_until(status["missing"], at_ns), "all", at_ns
        )

    def observe(self, status: Mapping[str, Any], leaders: Mapping[int, int], series: SeriesTable) -> None:
        """Adds latencies since the last call to `series`, by the leader of the partition."""
        for of in status.get("durations", ()):
            key = (of["what"], of["partition"], of["ms"])
            more = of["count"] - self._observed.get(key, 0)
            if more > 0:
                broker = {"broker": str(leaders.get(of["partition"], -1))}
                series.observe(_LATENCIES[of["what"]], broker, itertools.repeat(of["ms"] / 1000, more))
                self._observed[key] = of["count"]

    def _waiting_ns(self, partition: int, one: SendCounts, at_ns: int) -> int:
        """How long messages of a partition have been waiting without any acknowledgement (ns)."""
        acked, since = self._waits.get(partition, (-1, at_ns))
        if one.acked != acked or one.attempted <= one.ended:
            self._waits[partition] = (one.acked, at_ns)
            return 0
        return at_ns - since

    def _lost_until(self, missing: int, at_ns: int) -> int:
        """The greatest number of messages that were missing throughout LOST_AFTER_NS, so far."""
        self._missing.append((at_ns, missing))
        while len(self._missing) > 1 and self._missing[1][0] <= at_ns - LOST_AFTER_NS:
            self._missing.popleft()
        if self._missing[0][0] <= at_ns - LOST_AFTER_NS:
            self._lost = max(self._lost, min(n for _, n in self._missing))
        return self._lost

    def _sample(self, name: str, value: float, partition: int | str, at_ns: int) -> Sample:
        return Sample(name, value, at_ns, {"topic": self._topic, "partition": str(partition)})


STALLED_S = 2.5  # samples are a second apart, so a stall is noted within four


@dataclass(frozen=True)
class _Stall:
    """`since_ns`: the last acknowledgement before it; `leader`: who led when it was noted, -1: none."""

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
