"""Samples of signals about the messages of a watch.

Attempts and outcomes come from the producers' counters, which are current even if Spark is not running;
losses, duplicates and the like come from the ledger.
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
