"""What changed between two observations of a cluster, as sentences: its timeline's events. No clock, no I/O.

Only the outcome of an interval is visible: of two elections within a second, the second.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kaput.core import plural
from kaput.monitor.alerts.engine import Transition

_NAMED_MAX = 3  # partitions, in one sentence
_STATES = {"running": "runs again", "down": "is down", "paused": "is paused"}
Observation = Mapping[str, Any]


class Event(NamedTuple):
    """`kind`: node, controller, election, isr, topic, truncation, fault or alert. Times in ns."""

    at_ns: int
    kind: str
    text: str


def changes(before: Observation, now: Observation, transitions: Iterable[Transition] = ()) -> list[Event]:
    """The events, by time. `before`, `now`: observer.py's documents, with `fault_history` by fault id."""
    at_ns = now["at_ns"]
    events = [Event(at_ns, kind, text) for kind, text in _cluster_changes(before, now)]
    events += _fault_events(at_ns, before["fault_history"], now["fault_history"])
    events += [Event(at_ns, "alert", text) for text in map(_alert_text, transitions) if text]
    return sorted(events, key=lambda event: event.at_ns)


def _cluster_changes(before: Observation, now: Observation) -> Iterator[tuple[str, str]]:
    was, nodes = _node_states(before), _node_states(now)
    for name, state in nodes.items():
        if name not in was:
            yield "node", f"{name} was added"
        elif was[name] != state:
            yield "node", f"{name} {_STATES[state]}"
    # Before any broker has answered, there is nothing to compare with.
    if {"registered", "partitions", "controllers"} <= before.keys():
        yield from _registration_changes(before, now)
        yield from _partition_changes(_by_place(before), _by_place(now))
        for place, (old, new) in now["cut_back"].items():
            yield "truncation", f"{place} ended at {old:,} and now ends at {new:,}"


def _node_states(observation: Observation) -> dict[str, str]:
    return {title(node): node["state"] for node in [*observation["brokers"], *observation["others"]]}


def title(node: Observation) -> str:
    """The node's name: `broker 1`, also for a combined broker and controller."""
    return f"{'broker' if node['role'] == 'combined' else node['role']} {node['id']}"


def _registration_changes(before: Observation, now: Observation) -> Iterator[tuple[str, str]]:
    gone, came = ("unregistered", "registered") if now["mode"] == "zookeeper" else ("fenced", "unfenced")
    for broker in sorted(set(before["registered"]) - set(now["registered"])):
        yield "node", f"broker {broker} is {gone}: the controller counts it as dead"
    for broker in sorted(set(now["registered"]) - set(before["registered"])):
        yield "node", f"broker {broker} is {came}"
    if before["controllers"] != now["controllers"]:
        yield "controller", f"active controller: {_ids(before['controllers'])} → {_ids(now['controllers'])}"


def _by_place(observation: Observation) -> dict[str, Observation]:
    return {f"{row['topic']}/{row['partition']}": row for row in observation["partitions"]}


def _partition_changes(
    before: Mapping[str, Observation], now: Mapping[str, Observation]
) -> Iterator[tuple[str, str]]:
    elections: dict[str, list[str]] = {}
    isrs: dict[str, list[str]] = {}
    for place in [place for place in now if place in before]:
        old, new = before[place], now[place]
        if (old["leader"], old["leader_epoch"]) != (new["leader"], new["leader_epoch"]):
            elections.setdefault(f"{_id(old['leader'])} → {_id(new['leader'])}", []).append(place)
        if sorted(old["isr"]) != sorted(new["isr"]):
            isrs.setdefault(f"{_ids(sorted(old['isr']))} → {_ids(sorted(new['isr']))}", []).append(place)
    for change, places in elections.items():
        epoch = f" (epoch {now[places[0]]['leader_epoch']})" if len(places) == 1 else ""
        yield "election", f"leader of {_place_list(places)}: {change}{epoch}"
    for change, places in isrs.items():
        yield "isr", f"ISR of {_place_list(places)}: {change}"
    for word, changed in (("created", now.keys() - before.keys()), ("deleted", before.keys() - now.keys())):
        for topic, count in sorted(Counter(place.rpartition("/")[0] for place in changed).items()):
            yield "topic", f"topic {topic}: {plural(count, 'partition')} {word}"


def _fault_events(
    at_ns: int, before: Mapping[str, Observation], now: Mapping[str, Observation]
) -> Iterator[Event]:
    for name, fault in now.items():
        state = fault["state"]
        if name in before and before[name]["state"] == state:
            continue
        since_ns = fault["effective_ns"] if state == "active" else fault["healed_ns"]
        nodes = f"{fault['fault']} {fault['target']} (node {_ids(fault['brokers'])})"
        yield Event(since_ns or at_ns, "fault", f"{name} is {state}: {nodes}: {fault['proof']}")


def _alert_text(transition: Transition) -> str | None:
    alert = transition.alert
    if not transition.announce:
        return None
    word = "RESOLVED" if transition.change == "resolved" else "FIRING"
    return f"{word} {alert.rule.severity} {alert.rule.name}: {alert.reason or alert.summary}"


def _place_list(places: Sequence[str]) -> str:
    more = len(places) - _NAMED_MAX
    users_first = sorted(places, key=lambda place: place.startswith("__"))
    return ", ".join(users_first[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


def _id(broker: int | None) -> str:
    return "none" if broker is None else str(broker)


def _ids(brokers: Sequence[int]) -> str:
    return ", ".join(map(str, brokers)) or "none"
