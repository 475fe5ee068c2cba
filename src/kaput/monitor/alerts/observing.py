"""What rules observe at a given time: a value for each label set of a rule's alerts, or that it is unknown.

Three answers, never two: the condition holds, it does not, or it is unknown. Unknown are: a sample of NaN; no
sample for `stale-after`; a rate of fewer than two samples; a sum or an extreme of which a part is unknown,
unless the known parts suffice to say that the condition holds.

A label set that is silent for `forget-after`, while others of its signal have samples, is gone: a deleted
topic, a removed broker. A signal that is silent as a whole is not: its source is down.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from kaput.core import MS, SECOND
from kaput.monitor.alerts.condition import WORSE_UPWARDS, Condition
from kaput.monitor.alerts.rule import Rule
from kaput.monitor.alerts.rules import Rules
from kaput.monitor.alerts.series import UNKNOWN, Series
from kaput.monitor.signals import SIGNALS, Sample

LabelSet = tuple[tuple[str, str], ...]  # sorted
_COMBINED: Mapping[str, Callable[[list[float]], float]] = {"sum": math.fsum, "max": max, "min": min}


@dataclass(frozen=True)
class Observation:
    """`value`: NaN if unknown. `met`: whether the condition holds, None if unknown; `cleared`: whether a
    firing alert may end.
    """

    value: float
    met: bool | None
    cleared: bool | None


def label_set(labels: Mapping[str, str]) -> LabelSet:
    """Labels as a sorted, hashable key."""
    return tuple(sorted(labels.items()))


class SampleStore:
    """All samples that rules still need."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._windows = _windows(rules)
        self._series: dict[str, dict[LabelSet, Series]] = {name: {} for name in self._windows}
        self._last_value_ns: dict[str, int] = {}  # by signal, when its last sample with a value was taken
        self._future: list[Sample] = []

    def add(self, samples: Iterable[Sample], at_ns: int) -> None:
        """Adds samples; those later than `at_ns` take effect when their time has come."""
        pending = [*self._future, *samples]
        self._future = [sample for sample in pending if sample.at_ns > at_ns]
        for sample in pending:
            if sample.at_ns <= at_ns and sample.name in self._series:
                self._add(sample)
        self._forget(at_ns)

    def of_rule(self, rule: Rule, at_ns: int, began_ns: int) -> dict[LabelSet, Observation]:
        """What a rule observes. `began_ns`: the earliest time at which samples could have come."""
        if rule.absent is not None:
            last_value_ns = max(self._last_value_ns.get(rule.signal, 0), began_ns)
            missing = at_ns - last_value_ns >= rule.absent * MS
            return {(): Observation((at_ns - last_value_ns) / SECOND, missing, not missing)}
        parts: dict[LabelSet, list[float]] = defaultdict(list)
        for labels, series in self._series[rule.signal].items():
            if rule.where.items() <= dict(labels).items():
                # With `each`, keep labels that a source added (cluster) too: they distinguish alerts.
                kept = tuple(pair for pair in labels if rule.combine == "each" or pair[0] in rule.by)
                parts[kept].append(self._value(rule, series, at_ns))
        condition = rule.condition
        assert condition is not None
        return {labels: _combined(rule.combine, condition, values) for labels, values in parts.items()}

    def _value(self, rule: Rule, series: Series, at_ns: int) -> float:
        stale_ns = self._rules.stale_ns
        if rule.rate is not None:
            change, within_ns = series.increase(at_ns, rule.rate * MS, stale_ns)
            return change / (within_ns / SECOND) if within_ns else UNKNOWN
        if rule.increase is not None:
            return series.increase(at_ns, rule.increase * MS, stale_ns)[0]
        return series.value(at_ns, stale_ns)

    def _add(self, sample: Sample) -> None:
        series_by_labels = self._series[sample.name]
        series = series_by_labels.setdefault(
            label_set(sample.labels), Series(SIGNALS[sample.name].kind == "counter")
        )
        series.add(sample.at_ns, sample.value)
        if not math.isnan(sample.value):
            self._last_value_ns[sample.name] = max(self._last_value_ns.get(sample.name, 0), sample.at_ns)

    def _forget(self, at_ns: int) -> None:
        for name, series_by_labels in self._series.items():
            latest_ns = max((series.last_ns for series in series_by_labels.values()), default=0)
            for labels, series in [*series_by_labels.items()]:
                series.forget_before(at_ns - self._windows[name])
                if latest_ns - series.last_ns > self._rules.forget_ns:
                    del series_by_labels[labels]


def _windows(rules: Rules) -> dict[str, int]:
    """By signal, how far back rules look (ns)."""
    found: dict[str, int] = {}
    for rule in rules:
        window_ms = max(rule.rate or 0, rule.increase or 0)
        found[rule.signal] = max(found.get(rule.signal, 0), window_ms * MS + rules.stale_ns)
    return found


def _combined(how: str, condition: Condition, values: list[float]) -> Observation:
    known = [value for value in values if not math.isnan(value)]
    if not known:
        return Observation(UNKNOWN, None, None)
    if how == "each":
        return _observation(condition, known[0])
    seen = _observation(condition, _COMBINED[how](known))
    if len(known) == len(values) or (how, seen.met) == (_decided_by(condition), True):
        return seen
    return Observation(seen.value, None, None)


def _observation(condition: Condition, value: float) -> Observation:
    return Observation(value, condition.met(value), condition.cleared(value))


def _decided_by(condition: Condition) -> str | None:
    """The extreme for which one known part suffices: if one is above the threshold, so is the largest."""
    worse_upwards = WORSE_UPWARDS.get(condition.comparison)
    return None if worse_upwards is None else "max" if worse_upwards else "min"
