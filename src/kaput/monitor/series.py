"""The newest value of each series, for scrapes: bounded, current, thread-safe.

Prometheus's client library keeps every series it was ever given; here a series disappears with its partition,
group or broker, and the number of series per signal is limited. Not here: how they are written
(metrics_server.py).
"""

from __future__ import annotations

import math
import threading
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kaput.monitor.signals import SIGNALS, Sample, Signal

MOST_SERIES = 5_000  # per signal
BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
DROPPED = "kaput_samples_dropped_total"
Labels = tuple[str, ...]
Series = tuple[str, Labels]


@dataclass
class Histogram:
    """The number of observations in each bucket (the last one: all above), and their sum in seconds."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_S) + 1))
    sum_s: float = 0.0

    def observe(self, value_s: float) -> None:
        """Adds an observation; one at a bucket's upper bound belongs to that bucket."""
        self.counts[bisect_left(BUCKETS_S, value_s)] += 1
        self.sum_s += value_s


Value = float | Histogram


class SeriesTable:
    """Values by signal and labels. `more_labels`: of every sample; `most`: series of a signal."""

    def __init__(self, more_labels: Sequence[str] = (), most: int = MOST_SERIES) -> None:
        self.more_labels, self._most = tuple(more_labels), most
        self._lock = threading.Lock()
        self._gauges: dict[Series, float] = {}
        self._sources: dict[str, set[Series]] = {}
        # Of counters: the totals before their last reset, and since then.
        self._base: dict[Series, float] = {}
        self._raw: dict[Series, float] = {}
        self._histograms: dict[Series, Histogram] = {}
        self._sizes: Counter[str] = Counter()
        self._dropped: Counter[str] = Counter()

    def label_names(self, name: str) -> Labels:
        """The labels of a signal's series, in order."""
        return (*self.more_labels, *SIGNALS[name].labels)

    def add(self, samples: Iterable[Sample]) -> None:
        """Sets gauges, raises counters, adds to histograms. Raises KeyError for an unknown signal."""
        with self._lock:
            for sample in samples:
                self._apply(sample)

    def replace(self, source: str, samples: Iterable[Sample]) -> None:
        """The same; `samples` is all of `source`: earlier gauges that are not in it are deleted."""
        with self._lock:
            given = list(samples)
            now = {self._series(one) for one in given if SIGNALS[one.name].kind == "gauge"}
            for series in self._sources.get(source, set()) - now:
                if self._gauges.pop(series, None) is not None:
                    self._sizes[series[0]] -= 1
            self._sources[source] = now
            for sample in given:
                self._apply(sample)

    def observe(self, name: str, labels: Mapping[str, str], values_s: Iterable[float]) -> None:
        """Adds many observations to one series."""
        with self._lock:
            self._observe((name, self._values(name, labels)), values_s)

    def copied(self) -> dict[str, dict[Labels, Value]]:
        """A snapshot of everything, by signal."""
        with self._lock:
            found: dict[str, dict[Labels, Value]] = defaultdict(dict)
            for (name, labels), value in self._gauges.items():
                found[name][labels] = value
            for (name, labels), base in self._base.items():
                found[name][labels] = base + self._raw[name, labels]
            for (name, labels), histogram in self._histograms.items():
                found[name][labels] = Histogram(list(histogram.counts), histogram.sum_s)
            if self._dropped:
                nowhere = ("",) * len(self.more_labels)
                found[DROPPED] = {(*nowhere, name): float(n) for name, n in self._dropped.items()}
            return found

    def _apply(self, sample: Sample) -> None:
        kind, series = SIGNALS[sample.name].kind, self._series(sample)
        match kind:
            case "gauge":
                if series in self._gauges or self._has_room(sample.name):
                    self._gauges[series] = float(sample.value)
            case "counter":
                self._count(series, float(sample.value))
            case "histogram":
                self._observe(series, [float(sample.value)])

    def _observe(self, series: Series, values_s: Iterable[float]) -> None:
        if series in self._histograms or self._has_room(series[0]):
            histogram = self._histograms.setdefault(series, Histogram())
            for value_s in values_s:
                histogram.observe(value_s)

    def _count(self, series: Series, value: float) -> None:
        """A total lower than the last one was reset: counts on from there."""
        if math.isnan(value):
            return
        if series not in self._base:
            if not self._has_room(series[0]):
                return
            self._base[series], self._raw[series] = 0.0, 0.0
        if value < self._raw[series]:
            self._base[series] += self._raw[series]
        self._raw[series] = value

    def _has_room(self, name: str) -> bool:
        if self._sizes[name] >= self._most:
            self._dropped[name] += 1
            return False
        self._sizes[name] += 1
        return True

    def _series(self, sample: Sample) -> Series:
        return sample.name, self._values(sample.name, sample.labels)

    def _values(self, name: str, labels: Mapping[str, str]) -> Labels:
        """A label that a sample lacks is empty, which Prometheus treats as absent."""
        return tuple(str(labels.get(label, "")) for label in self.label_names(name))


def merged(tables: Iterable[SeriesTable]) -> Iterator[tuple[Signal, Labels, dict[Labels, Value]]]:
    """The signals that have series in any of these tables, in the order of SIGNALS: with the names of their
    labels, which are the same in all tables, and their values.
    """
    found: dict[str, dict[Labels, Value]] = defaultdict(dict)
    names: dict[str, Labels] = {}
    for table in tables:
        for name, series in table.copied().items():
            found[name].update(series)
            names[name] = table.label_names(name)
    return ((signal, names[name], found[name]) for name, signal in SIGNALS.items() if name in found)
