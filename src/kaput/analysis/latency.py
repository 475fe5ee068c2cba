"""Keys and values of `Account.latencies`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

ACK, END_TO_END = -2, -1  # of `Account.latencies`; a group's index stands for its own end-to-end latency


class Latency(NamedTuple):
    """Percentiles 50, 99 and 99.9, and the longest, in microseconds."""

    p: Sequence[float]
    longest_us: int
