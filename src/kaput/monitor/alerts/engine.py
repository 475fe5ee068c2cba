"""The states of alerts: inactive -> pending -> firing -> resolved. Turns samples and a time into transitions.

No clock and no I/O: the same samples and times give the same transitions, whatever the order of samples
within a step.

**An observation has three answers, never two**: the condition holds, it does not, or it is unknown. Unknown
are: a sample of NaN; no sample for `stale-after`; a rate of fewer than two samples; a sum or an extreme of
which a part is unknown, unless the known parts suffice to say that the condition holds. A label set that is
silent for `forget-after`, while others of its signal have samples, is gone: a deleted topic, a removed
broker. A signal that is silent as a whole is not: its source is down.

**Unknown changes nothing.** If a rule's observation is unknown, its alerts stay as they are: a
firing one keeps firing, a pending one stays pending and does not fire. Prometheus ends an alert as soon as
its series has no sample, which calls an outage resolved because the broker that reported it died; its users
have asked for something else for years. So an alert is resolved only by an observed good value, with one
exception, which is stated as the reason: if a label set is gone (silent for `forget-after` while others of
its signal have samples), its alerts are resolved.

**for** counts from the first evaluation at which the condition held; one at which it did not hold restarts
it; unknown ones in between do neither. **keep-firing-for** counts in the same way from the first good value.

**Inhibition** is decided after all rules are evaluated. An inhibited alert has states like any other, and
inhibits others in turn, but it is not announced. When the alert that explains it is resolved, it has to last
for another `for` before it is announced: partitions that catch up after a broker has come back are not news.
An alert that was announced before it was inhibited is resolved as if it had never been inhibited.
"""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Literal

from kaput.core import MS, SECOND
from kaput.monitor.alerts.rules import (
    WORSE_UPWARDS,
    AlertRule,
    AlertRules,
    Condition,
    Inhibitor,
    duration,
    filled,
)
from kaput.monitor.signals import SIGNALS, Sample

UNKNOWN = math.nan


class SampleSeries:
    """The samples of one label set of a signal. `last_ns`: of the latest one, whether it had a value or not.
    A counter that falls was reset: it continues from 0. Samples may come late; of two at the same time the
    larger is kept (so that their order does not matter).
    """

    def __init__(self, counter: bool) -> None:
        self._counter = counter
        self._times: list[int] = []
        self._values: list[float] = []
        self._nan_ns = -1  # the latest sample that could not be observed
        self.last_ns = -1

    def add(self, at_ns: int, value: float) -> None:
        """Adds a sample; NaN: it could not be observed."""
        self.last_ns = max(self.last_ns, at_ns)
        if math.isnan(value):
            self._nan_ns = max(self._nan_ns, at_ns)
            return
        at = bisect_left(self._times, at_ns)
        if at < len(self._times) and self._times[at] == at_ns:
            self._values[at] = max(self._values[at], value)
        else:
            self._times.insert(at, at_ns)
            self._values.insert(at, value)

    def value(self, at_ns: int, stale_ns: int) -> float:
        """The latest value; NaN if there is none recent enough, or a later NaN."""
        last = bisect_right(self._times, at_ns) - 1
        if last < 0 or at_ns - self._times[last] > stale_ns:
            return UNKNOWN
        return UNKNOWN if self._nan_ns > self._times[last] else self._values[last]

    def increase(self, at_ns: int, window_ns: int, stale_ns: int) -> tuple[float, int]:
        """How much the value changed within the window, and in which time (ns); NaN if unknown. Counts from
        the last sample before the window, if it is recent enough: then no change falls between windows.
        """
        last = bisect_right(self._times, at_ns) - 1
        first = bisect_right(self._times, at_ns - window_ns) - 1
        if first < 0 or at_ns - window_ns - self._times[first] > stale_ns:
            first += 1
        if math.isnan(self.value(at_ns, stale_ns)) or first >= last:
            return UNKNOWN, 0
        steps = pairwise(self._values[first : last + 1])
        change = sum(now if self._counter and now < before else now - before for before, now in steps)
        return change, self._times[last] - self._times[first]

    def forget_before(self, at_ns: int) -> None:
        """Deletes samples that no window reaches any more."""
        keep = max(0, bisect_right(self._times, at_ns) - 1)
        del self._times[:keep], self._values[:keep]


LabelSet = tuple[tuple[str, str], ...]  # sorted
_COMBINED: Mapping[str, Callable[[list[float]], float]] = {"sum": math.fsum, "max": max, "min": min}


@dataclass(frozen=True)
class Observation:
    """`value`: NaN if unknown. `met`: the condition holds (None: unknown); `cleared`: the alert may end."""

    value: float
    met: bool | None
    cleared: bool | None


def label_set(labels: Mapping[str, str]) -> LabelSet:
    """Labels as a sorted, hashable key."""
    return tuple(sorted(labels.items()))


class SampleStore:
    """All samples that rules still need."""

    def __init__(self, rules: AlertRules) -> None:
        self._rules = rules
        self._windows = _windows(rules)
        self._series: dict[str, dict[LabelSet, SampleSeries]] = {name: {} for name in self._windows}
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

    def of_rule(self, rule: AlertRule, at_ns: int, began_ns: int) -> dict[LabelSet, Observation]:
        """What a rule observes. `began_ns`: the earliest time at which samples could have come."""
        if rule.absent is not None:
            last_value_ns = max(self._last_value_ns.get(rule.signal, 0), began_ns)
            missing = at_ns - last_value_ns >= rule.absent * MS
            return {(): Observation((at_ns - last_value_ns) / SECOND, missing, not missing)}
        parts: dict[LabelSet, list[float]] = defaultdict(list)
        for labels, series in self._series[rule.signal].items():
            if rule.concerns(dict(labels)):
                # With `each`, keep labels that a source added (cluster) too: they distinguish alerts.
                kept = tuple(pair for pair in labels if rule.combine == "each" or pair[0] in rule.by)
                parts[kept].append(self._value(rule, series, at_ns))
        condition = rule.condition
        assert condition is not None
        return {labels: _combined(rule.combine, condition, values) for labels, values in parts.items()}

    def _value(self, rule: AlertRule, series: SampleSeries, at_ns: int) -> float:
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
            label_set(sample.labels), SampleSeries(SIGNALS[sample.name].kind == "counter")
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


def _windows(rules: AlertRules) -> dict[str, int]:
    """By signal, how far back rules look (ns)."""
    counts: dict[str, int] = {}
    for rule in rules:
        window_ms = max(rule.rate or 0, rule.increase or 0)
        counts[rule.signal] = max(counts.get(rule.signal, 0), window_ms * MS + rules.stale_ns)
    return counts


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


State = Literal["pending", "firing", "resolved", "inactive"]
# inhibited: another alert explains one that fires; released: no longer.
Change = Literal["pending", "inactive", "firing", "inhibited", "released", "resolved"]


@dataclass(frozen=True)
class Alert:
    """One alert. `value`: the last known one. Times are ns since the epoch. `inhibited_by`: names of rules.
    `announced`: whether anyone was notified, that is, it has fired without being inhibited. `observed`:
    whether its current value is known. `reason`: why it ended, if not by its value.
    """

    rule: AlertRule
    label_set: LabelSet
    state: State
    value: float
    active_ns: int
    fired_ns: int | None = None
    resolved_ns: int | None = None
    well_ns: int | None = None  # since when its value is fine, while it is kept firing
    inhibited_by: tuple[str, ...] = ()
    inhibited_ns: int | None = None  # when it was last inhibited
    announced: bool = False
    observed: bool = True
    reason: str = ""

    @property
    def labels(self) -> Mapping[str, str]:
        """Its labels, and those that its rule gives it; without the rule's name."""
        return dict(self.label_set) | self.rule.own_labels

    @cached_property
    def key(self) -> str:
        """The same for every episode of a rule and label set, in any process."""
        text = "\0".join([self.rule.name, *(part for pair in self.label_set for part in pair)])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def summary(self) -> str:
        return filled(self.rule.summary, self.labels, self.value)


@dataclass(frozen=True)
class Transition:
    """A change of an alert. `announce`: whether to notify those on call."""

    change: Change
    at_ns: int
    alert: Alert
    announce: bool


_Key = tuple[str, LabelSet]


class Engine:
    """The rules, the samples that they still need, and the alerts that are not inactive."""

    def __init__(self, rules: AlertRules) -> None:
        self._rules = rules
        self._observed = SampleStore(rules)
        self._active: dict[_Key, Alert] = {}
        self._began_ns: int | None = None
        self._now_ns = 0

    @property
    def active(self) -> list[Alert]:
        """Alerts that are pending or firing, by rule and labels."""
        return [self._active[key] for key in sorted(self._active)]

    def step(self, samples: Iterable[Sample], at_ns: int) -> list[Transition]:
        """The transitions that samples at this time (ns) cause. Raises ValueError if time goes back."""
        if at_ns < self._now_ns:
            raise ValueError(f"evaluated at {at_ns} after {self._now_ns}")
        self._now_ns = at_ns
        self._began_ns = at_ns if self._began_ns is None else self._began_ns
        self._observed.add(samples, at_ns)
        before = dict(self._active)
        moved: dict[_Key, Alert] = {}
        for rule in self._rules:
            moved |= self._evaluate(rule)
        self._active = {key: alert for key, alert in moved.items() if alert.state in ("pending", "firing")}
        firing = _firing(self._active.values())
        for key, alert in self._active.items():
            self._active[key] = moved[key] = self._inhibition(alert, firing)
        return [
            transition
            for key in sorted(moved)
            for transition in self._transitions(before.get(key), moved[key])
        ]

    def _evaluate(self, rule: AlertRule) -> dict[_Key, Alert]:
        """The rule's alerts after this step, including those that ended with it."""
        assert self._began_ns is not None
        seen = self._observed.of_rule(rule, self._now_ns, self._began_ns)
        known = {key: alert for key, alert in self._active.items() if key[0] == rule.name}
        moved: dict[_Key, Alert] = {}
        for labels, observation in seen.items():
            after = self._next(rule, labels, known.get((rule.name, labels)), observation)
            if after is not None:
                moved[rule.name, labels] = after
        gone = {key: self._resolve_gone(alert) for key, alert in known.items() if key[1] not in seen}
        return moved | gone

    def _next(
        self, rule: AlertRule, labels: LabelSet, alert: Alert | None, seen: Observation
    ) -> Alert | None:
        if seen.met is None:
            return None if alert is None else replace(alert, observed=False)
        if alert is None:
            if not seen.met:
                return None
            alert = Alert(rule, labels, "pending", seen.value, active_ns=self._now_ns)
        alert = replace(alert, value=seen.value, observed=True)
        return (
            self._while_pending(alert, seen) if alert.state == "pending" else self._while_firing(alert, seen)
        )

    def _while_pending(self, alert: Alert, seen: Observation) -> Alert:
        if not seen.met:
            return replace(alert, state="inactive", resolved_ns=self._now_ns)
        if self._now_ns - alert.active_ns < alert.rule.for_ * MS:
            return alert
        return replace(alert, state="firing", fired_ns=self._now_ns)

    def _while_firing(self, alert: Alert, seen: Observation) -> Alert:
        if not seen.cleared:
            return replace(alert, well_ns=None)
        well_ns = self._now_ns if alert.well_ns is None else alert.well_ns
        if self._now_ns - well_ns < alert.rule.keep_firing_for * MS:
            return replace(alert, well_ns=well_ns)
        return replace(alert, state="resolved", well_ns=well_ns, resolved_ns=self._now_ns)

    def _resolve_gone(self, alert: Alert) -> Alert:
        state: State = "resolved" if alert.state == "firing" else "inactive"
        reason = f"no longer there: no sample for {duration(self._rules.forget_after / 1000)}"
        return replace(alert, state=state, observed=False, resolved_ns=self._now_ns, reason=reason)

    def _inhibition(self, alert: Alert, firing: Mapping[str, list[Alert]]) -> Alert:
        """The alert with the rules that explain it now; announced if none does."""
        names = {each.rule for each in alert.rule.unless if _explains(each, alert, firing)}
        if names:
            return replace(alert, inhibited_by=tuple(sorted(names)), inhibited_ns=self._now_ns)
        if alert.inhibited_ns is not None and self._now_ns - alert.inhibited_ns < alert.rule.for_ * MS:
            return alert
        return replace(alert, inhibited_by=(), announced=alert.state == "firing")

    def _transitions(self, before: Alert | None, after: Alert) -> Iterator[Transition]:
        change = _change(before, after)
        if change is not None:
            first = after.announced and not (before is not None and before.announced)
            announce = first if change != "resolved" else after.announced
            yield Transition(change, self._now_ns, after, announce)


def _firing(alerts: Iterable[Alert]) -> Mapping[str, list[Alert]]:
    by_rule: dict[str, list[Alert]] = {}
    for alert in alerts:
        if alert.state == "firing":
            by_rule.setdefault(alert.rule.name, []).append(alert)
    return by_rule


def _explains(inhibitor: Inhibitor, alert: Alert, firing: Mapping[str, list[Alert]]) -> bool:
    labels = alert.labels
    return any(
        all(other.labels.get(label) == labels.get(label) for label in inhibitor.equal)
        for other in firing.get(inhibitor.rule, ())
    )


def _change(before: Alert | None, after: Alert) -> Change | None:
    """The name of the change; None if there is none."""
    if before is None or before.state != after.state:
        return after.state
    if after.state == "firing" and bool(before.inhibited_by) != bool(after.inhibited_by):
        return "inhibited" if after.inhibited_by else "released"
    return None
