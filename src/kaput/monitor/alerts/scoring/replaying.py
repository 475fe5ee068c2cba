"""Plays rules over a recorded run: the episodes in which an alert was announced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kaput.core import MS
from kaput.monitor.alerts.engine import Engine
from kaput.monitor.alerts.rule import Rule
from kaput.monitor.alerts.rules import Rules
from kaput.monitor.alerts.scoring.recorded import Recording


@dataclass(frozen=True)
class Episode:
    """From an alert's announcement to its resolution; `resolved_ns` is None if it fired to the end of the
    recording. `active_ns`: when its condition began to hold.
    """

    rule: Rule
    labels: Mapping[str, str]
    summary: str
    active_ns: int
    fired_ns: int
    resolved_ns: int | None = None


@dataclass(frozen=True)
class Played:
    """`episodes`: in the order of their announcement. `explained`: for alerts that fired but were not
    announced, because another explained them: the rule's name and when its condition began to hold.
    """

    episodes: Sequence[Episode] = ()
    explained: Sequence[tuple[str, int]] = ()


def played(rules: Rules, recording: Recording) -> Played:
    """What the rules would have announced."""
    engine = Engine(rules)
    open_: dict[str, Episode] = {}
    found: list[Episode] = []
    explained: list[tuple[str, int]] = []
    for at_ns, samples in recording.steps.items():
        for each in engine.step(samples, at_ns):
            alert = each.alert
            if each.announce and each.change != "resolved":
                open_[alert.key] = Episode(alert.rule, alert.labels, alert.summary, alert.active_ns, at_ns)
            elif each.announce:
                begun = open_.pop(alert.key)
                found.append(replace(begun, resolved_ns=at_ns))
            elif each.change == "firing":
                explained.append((alert.rule.name, alert.active_ns))
    found += open_.values()
    found.sort(key=lambda each: (each.fired_ns, each.rule.name, str(each.labels)))
    return Played(found, explained)


def playable(rules: Rules, recording: Recording) -> tuple[Rules | None, dict[str, str]]:
    """The rules that can fire in this recording, None if there are none; and by name, why the
    others cannot.
    """
    why = {rule.name: words for rule in rules if (words := _why_not(rule, recording))}
    kept = [rule for rule in rules if rule.name not in why]
    return (rules.model_copy(update={"alert_rules": kept}) if kept else None), why


def _why_not(rule: Rule, recording: Recording) -> str:
    if rule.signal not in recording.signals:
        return "runs do not record their signals"
    return "the run is shorter than `for`" if rule.for_ * MS > recording.length_ns else ""
