"""How long things took, and how long nothing came: percentiles and silences of a count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kaput.analysis.dense.histogram import Histogram
from kaput.analysis.dense.streams import Gap
from kaput.analysis.dense.summary import Summary

ACK, END_TO_END = -2, -1  # of `latencies`; a group's index stands for its own end-to-end latency


@dataclass(frozen=True)
class Latency:
    """Percentiles 50, 99 and 99.9, and the longest, in microseconds."""

    p: Sequence[float]
    longest_us: int


class Silence(NamedTuple):
    """A producer's longest time without an acknowledgement from a place."""

    producer: int
    place: int
    gap: Gap


def measured(summary: Summary, groups: int) -> dict[int, Latency]:
    """The latencies of a count, by what they are of, as `latencies` tells them."""
    found = {ACK: summary.ack, **{group: summary.end_to_end[group] for group in range(groups)}}
    if groups > 1:
        found[END_TO_END] = Histogram()
        for group in range(groups):
            found[END_TO_END].add(summary.end_to_end[group])
    return {
        what: Latency(histogram.percentiles((0.5, 0.99, 0.999)), int(histogram.us[-1]))
        for what, histogram in found.items()
        if len(histogram.us)
    }
