"""Counts and latencies of each second of a run, in constant memory: steps widen as the run gets longer.

Counts are exact; latencies are percentiles of a histogram with buckets 7 % wide.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

COUNTS = ("sent", "acked", "failed", "unknown", "delivered")
MOST = 1_200  # steps; beyond it, pairs of steps are merged
_SECOND_NS = 1_000_000_000
_FLOOR_MS, _PER_DECADE, _BUCKETS = 0.01, 32, 256  # from 10 us to 1000 s
Longs = np.ndarray[Any, np.dtype[np.int64]]


class StepRow(NamedTuple):
    """One step: its number, its counts, and percentiles of the latency of its acknowledgements in ms."""

    number: int
    sent: int
    acked: int
    failed: int
    unknown: int
    delivered: int
    p50: float | None
    p99: float | None


class StepTable(NamedTuple):
    """All steps at one moment. `changed`: for each step, the version in which it last changed."""

    width_s: float
    rows: tuple[StepRow, ...]
    changed: tuple[int, ...]

    def since(self, version: int) -> list[StepRow]:
        """The steps that changed after `version`."""
        return [row for row, at in zip(self.rows, self.changed, strict=True) if at > version]


class LiveSteps:
    """Counts from `began_ns` on. Not thread-safe."""

    def __init__(self, began_ns: int) -> None:
        self.began_ns, self._width_ns = began_ns, _SECOND_NS
        self._counts = np.zeros((len(COUNTS), MOST), np.int64)
        self._histograms = np.zeros((MOST, _BUCKETS), np.int32)
        self._touched = np.zeros(MOST, bool)
        self._rows: list[StepRow] = []
        self._changed: list[int] = []
        self._newest = 0

    def add(self, name: str, at_ns: Longs) -> None:
        """Adds one to the count `name` at each of these times."""
        if len(at_ns):
            at, _ = self._numbers(at_ns)
            self._counts[COUNTS.index(name)] += np.bincount(at, minlength=MOST)
            self._touched[at] = True

    def add_latencies(self, attempt_ns: Longs, done_ns: Longs) -> None:
        """Adds the latencies of acknowledged attempts."""
        if len(done_ns):
            at, within = self._numbers(done_ns)
            ms = np.maximum((done_ns - attempt_ns)[within] / 1e6, _FLOOR_MS)
            buckets = np.minimum(np.log10(ms / _FLOOR_MS) * _PER_DECADE, _BUCKETS - 1).astype(np.int64)
            np.add.at(self._histograms, (at, buckets), 1)
            self._touched[at] = True

    def table(self, version: int) -> StepTable:
        """The current steps. `version`: recorded for the steps that changed since the last call."""
        while len(self._rows) <= self._newest:
            self._rows.append(StepRow(len(self._rows), 0, 0, 0, 0, 0, None, None))
            self._changed.append(version)
        for number in np.flatnonzero(self._touched).tolist():
            self._rows[number] = self._row(number)
            self._changed[number] = version
        self._touched[:] = False
        return StepTable(self._width_ns / 1e9, tuple(self._rows), tuple(self._changed))

    def _numbers(self, at_ns: Longs) -> tuple[Longs, np.ndarray[Any, np.dtype[np.bool_]]]:
        """The step numbers of these times, and which times have one: times far off are ignored."""
        latest = int(at_ns.max())
        if (latest - self.began_ns) // _SECOND_NS < 400 * MOST:
            while (latest - self.began_ns) // self._width_ns >= MOST:
                self._widen()
        numbers = (at_ns - self.began_ns) // self._width_ns
        within = (numbers >= 0) & (numbers < MOST)
        found: Longs = numbers[within]
        self._newest = max(self._newest, int(found.max())) if len(found) else self._newest
        return found, within

    def _widen(self) -> None:
        half = MOST // 2
        counts = self._counts.reshape(len(COUNTS), half, 2).sum(axis=2)
        histograms = self._histograms.reshape(half, 2, _BUCKETS).sum(axis=1)
        self._counts[:], self._histograms[:] = 0, 0
        self._counts[:, :half], self._histograms[:half] = counts, histograms
        self._width_ns, self._newest = self._width_ns * 2, self._newest // 2
        self._rows, self._changed = [], []
        self._touched[: self._newest + 1] = True

    def _row(self, number: int) -> StepRow:
        counts = self._counts[:, number].tolist()
        sent, acked, failed, unknown, delivered = counts
        p50, p99 = self._percentile(number, 0.5), self._percentile(number, 0.99)
        return StepRow(number, sent, acked, failed, unknown, delivered, p50, p99)

    def _percentile(self, number: int, share: float) -> float | None:
        upto = np.cumsum(self._histograms[number])
        if not upto[-1]:
            return None
        bucket = int(np.searchsorted(upto, share * upto[-1]))
        return float(f"{_FLOOR_MS * 10 ** ((bucket + 0.5) / _PER_DECADE):.3g}")
