"""What a watch knows of its messages, as samples of signals.

What producers have attempted and heard comes from their counters, a moment old, whether Spark runs or not;
what became of the messages comes from the ledger.
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kaput.core import SECOND
from kaput.monitor.series import SeriesTable
from kaput.monitor.signals import Sample

LOST_AFTER_NS = 30 * SECOND  # missing for so long, and a message counts as lost
_LATENCIES = {"ack": "kaput_produce_latency_seconds", "end_to_end": "kaput_end_to_end_latency_seconds"}
_OF_PLACES = {
    "stored": "kaput_messages_received_total",
    "missing": "kaput_messages_missing",
    "late": "kaput_messages_late_total",
    "duplicated": "kaput_messages_duplicated_total",
    "reordered": "kaput_messages_reordered_total",
}


class Sent(NamedTuple):
    """Of one partition, how many messages its producers attempted, and how many had each outcome."""

    attempted: int
    acked: int
    failed: int
    ended: int


class MessageSamples:
    """Of one topic, or of several together, which are then called `all`. Its counters only go up."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        # By partition, how many acknowledgements there were last, and since when (ns).
        self._waits: dict[int, tuple[int, int]] = {}
        self._missing: deque[tuple[int, int]] = deque()
        self._lost = 0
        self._observed: dict[tuple[str, int, float], int] = {}

    def of_producers(self, sent: Mapping[int, Sent], at_ns: int | None = None) -> Iterator[Sample]:
        """What their counters say."""
        at_ns = at_ns or time.time_ns()
        for partition, one in sent.items():
            yield self._sample("kaput_messages_sent_total", one.attempted, partition, at_ns)
            yield self._sample("kaput_messages_acked_total", one.acked, partition, at_ns)
            yield self._sample("kaput_messages_failed_total", one.failed, partition, at_ns)
            waited = self._waited(partition, one, at_ns) / SECOND
            yield self._sample("kaput_unacknowledged_seconds", waited, partition, at_ns)

    def of_ledger(self, status: Mapping[str, Any]) -> Iterator[Sample]:
        """What the ledger says; nothing before it has begun."""
        if "places" not in status:
            return
        at_ns = status["at_ns"]
        for place in status["places"]:
            labels = {"topic": place["topic"], "partition": str(place["partition"])}
            for word, name in _OF_PLACES.items():
                yield Sample(name, place[word], at_ns, labels)
        yield self._sample("kaput_messages_lost_total", self._lost_by(status["missing"], at_ns), "all", at_ns)

    def observe(self, status: Mapping[str, Any], leaders: Mapping[int, int], series: SeriesTable) -> None:
        """Latencies since the last time, by the broker that leads the partition."""
        for of in status.get("durations", ()):
            key = (of["what"], of["partition"], of["ms"])
            more = of["count"] - self._observed.get(key, 0)
            if more > 0:
                broker = {"broker": str(leaders.get(of["partition"], -1))}
                series.observe(_LATENCIES[of["what"]], broker, itertools.repeat(of["ms"] / 1000, more))
                self._observed[key] = of["count"]

    def _waited(self, partition: int, one: Sent, at_ns: int) -> int:
        """How long messages have been waiting there with none acknowledged (ns)."""
        acked, since = self._waits.get(partition, (-1, at_ns))
        if one.acked != acked or one.attempted <= one.ended:
            self._waits[partition] = (one.acked, at_ns)
            return 0
        return at_ns - since

    def _lost_by(self, missing: int, at_ns: int) -> int:
        """The most that were missing for LOST_AFTER_NS without a break."""
        self._missing.append((at_ns, missing))
        while len(self._missing) > 1 and self._missing[1][0] <= at_ns - LOST_AFTER_NS:
            self._missing.popleft()
        if self._missing[0][0] <= at_ns - LOST_AFTER_NS:
            self._lost = max(self._lost, min(n for _, n in self._missing))
        return self._lost

    def _sample(self, name: str, value: float, partition: int | str, at_ns: int) -> Sample:
        return Sample(name, value, at_ns, {"topic": self._topic, "partition": str(partition)})
