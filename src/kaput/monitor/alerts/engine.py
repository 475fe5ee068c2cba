"""The states of alerts: inactive -> pending -> firing -> resolved. Turns samples and a time into transitions.

No clock and no I/O: the same samples and times give the same transitions, whatever the order of samples
within a step.

**Unknown changes nothing.** If a rule's observation is unknown (observing.py), its alerts stay as they are: a
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

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from kaput.core import MS
from kaput.monitor.alerts.alert import Alert, Change, State, Transition
from kaput.monitor.alerts.observing import LabelSet, Observation, SampleStore
from kaput.monitor.alerts.rule import Inhibitor, Rule
from kaput.monitor.alerts.rules import Rules
from kaput.monitor.alerts.summary import duration
from kaput.monitor.signals import Sample

_Key = tuple[str, LabelSet]


class Engine:
    """The rules, the samples that they still need, and the alerts that are not inactive."""

    def __init__(self, rules: Rules) -> None:
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
        """The transitions caused by these samples at this time (ns since the epoch), by rule and labels.
        Raises ValueError if time goes back.
        """
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

    def _evaluate(self, rule: Rule) -> dict[_Key, Alert]:
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

    def _next(self, rule: Rule, labels: LabelSet, alert: Alert | None, seen: Observation) -> Alert | None:
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
    """Firing alerts by rule."""
    found: dict[str, list[Alert]] = {}
    for alert in alerts:
        if alert.state == "firing":
            found.setdefault(alert.rule.name, []).append(alert)
    return found


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
