"""Observes a running cluster: its state, rates, lag, alerts, and the changes of the last minutes in
sentences.

The first request starts polling, once a second; each request returns the last known state at once. Its place:
daemon.py answers `observe` with it, for the control room and `kaput status --watch`. Not here: the one-time
requests of `kaput status` (standing_cluster.py); faults (fault_injection.py).
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from kaput.cluster.access import Access
from kaput.core import SECOND, TopicPartition, first_few, plural
from kaput.errors import LabError
from kaput.monitor.alerts.engine import Alert, Engine, Transition
from kaput.monitor.alerts.rules import builtin
from kaput.monitor.signals import Sample
from kaput.monitor.sources.cluster_state import ClusterState
from kaput.monitor.sources.polling import Polling
from kaput.operate.standing_cluster import StandingCluster, group_row, partition_row

K = TypeVar("K", bound=Hashable)


class PositionRates(Generic[K]):
    """Computes rates between successive positions. A position that went back has no rate."""

    def __init__(self) -> None:
        self.cut_back: dict[
            K, tuple[int, int]
        ] = {}  # positions that went back in the last `add`: (before, now)
        self._last: dict[K, tuple[float, int]] = {}

    def add(self, at_s: float, positions: Mapping[K, int], existing: Collection[K]) -> dict[K, float]:
        """Rates per second of the positions known now and before; after a gap, the mean over it. `at_s`: when
        they were read, by the monotonic clock. `existing`: all keys that exist, including those without a
        known position now.
        """
        rates: dict[K, float] = {}
        self.cut_back = {}
        for key, position in positions.items():
            before_s, before = self._last.get(key, (at_s, position))
            if position < before:
                self.cut_back[key] = before, position
            elif at_s > before_s:
                rates[key] = (position - before) / (at_s - before_s)
        self._last = {key: last for key, last in self._last.items() if key in existing}
        self._last |= {key: (at_s, position) for key, position in positions.items()}
        return rates


POLL_S = 1.0
HISTORY_S = 300  # of the timeline
_EVENTS_MAX, _PARTITIONS_MAX, _FAULTS_MAX = 200, 200, 100
_RATES = ("written_per_s", "read_per_s")
_NEEDS_BROKERS = ("controller", "controllers", "registered", "partitions", "groups", *_RATES)
Faults = Callable[[], Sequence[Mapping[str, Any]]]


class Observer:
    """Observes one lab, which must be running. `faults` returns all injected faults, active and healed."""

    def __init__(self, lab: StandingCluster, faults: Faults) -> None:
        self._lab, self._faults = lab, faults
        self._lock = threading.Lock()
        self._polling: Polling | None = None
        self._first = threading.Event()
        self._engine, self._evaluated_ns = Engine(builtin()), 0
        self._written: PositionRates[TopicPartition] = PositionRates()
        self._read: PositionRates[tuple[str, TopicPartition]] = PositionRates()
        self._last_known: dict[str, Any] = {}  # the last known value of each part
        self._document: dict[str, Any] = {}
        self._events: deque[Event] = deque(maxlen=_EVENTS_MAX)
        self._history: deque[tuple[int, float | None, float | None]] = deque(maxlen=HISTORY_S)

    def document(self) -> dict[str, Any]:
        """The last known state: the parts of `kaput status --json`, with rates, alerts and the timeline.
        Times are ns since the epoch, rates records a second. Unknown values are null. The first call starts
        the polling; raises LabError if nothing is known within 5 s.
        """
        with self._lock:
            if self._polling is None:
                self._start()
        if not self._first.wait(5.0):
            raise LabError("the cluster has not been observed yet: try again")
        with self._lock:
            return {
                **self._document,
                "asked_ns": time.time_ns(),
                "fault_history": list(self._faults())[-_FAULTS_MAX:],
                "events": [event._asdict() for event in self._events],
                "history": list(self._history),
            }

    def close(self) -> None:
        """Stops the polling."""
        if self._polling is not None:
            self._polling.__exit__()

    def _start(self) -> None:
        properties = self._lab.client_properties
        access = Access.of(properties)
        self._state = ClusterState(self._lab.bootstrap_servers, access, every_end=True)
        self._polling = Polling(self._state, self._on_poll, every_s=POLL_S)
        self._polling.__enter__()

    def _on_poll(self, samples: Sequence[Sample]) -> None:
        """Records the state after a poll, and the changes since the previous one."""
        now_ns = max(time.time_ns(), self._evaluated_ns)  # a clock that is set back must not change the order
        self._evaluated_ns = now_ns
        seen = self._state_now(now_ns, samples)
        transitions = self._engine.step(samples, now_ns)
        seen["alerts"] = [_alert(alert) for alert in self._engine.active]
        faults = {fault["id"]: dict(fault) for fault in self._faults()}
        now = {**self._last_known, **{name: part for name, part in seen.items() if part is not None}}
        now["fault_history"] = faults
        with self._lock:
            if self._last_known:
                self._events.extend(changes(self._last_known, now, transitions))
            self._history.append((now_ns, seen["written_per_s"], seen["read_per_s"]))
            self._last_known, self._document = now, _limited(seen)
        self._first.set()

    def _state_now(self, now_ns: int, samples: Sequence[Sample]) -> dict[str, Any]:
        state, view = self._state, self._state.view
        known = {**self._lab.summary(), "at_ns": now_ns, "unknown": list(state.troubles)}
        if view is None:
            return {**known, **dict.fromkeys(_NEEDS_BROKERS), "cut_back": {}}
        written = self._written.add(state.ends_s, state.ends, view.partitions)
        committed = {(group, p): at for group, all_ in state.committed.items() for p, at in all_.items()}
        read = self._read.add(state.ends_s, committed, committed)
        ages = {
            (s.labels["group"], s.labels["topic"], s.labels["partition"]): s.value
            for s in samples
            if s.name == "kaput_consumer_lag_seconds" and not math.isnan(s.value)
        }
        return {
            **known,
            "controller": state.active_controllers[0] if len(state.active_controllers) == 1 else None,
            "controllers": state.active_controllers,
            "registered": sorted(view.alive),
            "partitions": [
                {**partition_row(p, each), "end": state.ends.get(p), "written_per_s": written.get(p)}
                for p, each in view.partitions.items()
            ],
            "groups": [_group(name, places, state.ends, ages) for name, places in state.committed.items()],
            "cut_back": {f"{p.topic}/{p.partition}": cut for p, cut in self._written.cut_back.items()},
            "written_per_s": sum(written.values()) if written else None,
            "read_per_s": sum(read.values()) if read else None,
        }


def _limited(seen: dict[str, Any]) -> dict[str, Any]:
    """Limits the partitions: those with problems first, and of Kafka's own topics only those."""
    rows = seen["partitions"]
    if rows is None:
        return seen
    wrong = [row for row in rows if row["leader"] is None or row["under_replicated"]]
    well = [row for row in rows if row not in wrong and not row["topic"].startswith("__")]
    shown = [*wrong, *well][:_PARTITIONS_MAX]
    shown.sort(key=lambda row: (row["topic"], row["partition"]))
    return {**seen, "partitions": shown, "partitions_left_out": len(wrong) + len(well) - len(shown)}


def _group(
    name: str,
    committed: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    ages: Mapping[tuple[str, str, str], float],
) -> dict[str, Any]:
    row = group_row(name, committed, ends)
    for each in row["partitions"]:
        each["lag_s"] = ages.get((name, each["topic"], str(each["partition"])))
    return row


def _alert(alert: Alert) -> dict[str, Any]:
    return {
        "rule": alert.rule.name,
        "severity": alert.rule.severity,
        "state": alert.state,
        "summary": alert.summary,
        "why": " ".join(alert.rule.why.split()),
        "since_s": round((alert.fired_ns or alert.active_ns) / SECOND, 3),
        "inhibited_by": list(alert.inhibited_by),
        "observed": alert.observed,
    }


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
        ids = f" (node {_ids(fault['brokers'])})" if fault["brokers"] else ""
        nodes = f"{fault['fault']} {fault['target']}{ids}"
        yield Event(since_ns or at_ns, "fault", f"{name} is {state}: {nodes}: {fault['proof']}")


def _alert_text(transition: Transition) -> str | None:
    alert = transition.alert
    if not transition.announce:
        return None
    word = "RESOLVED" if transition.change == "resolved" else "FIRING"
    return f"{word} {alert.rule.severity} {alert.rule.name}: {alert.reason or alert.summary}"


def _place_list(places: Sequence[str]) -> str:
    users_first = sorted(places, key=lambda place: place.startswith("__"))
    return first_few(users_first, _NAMED_MAX)


def _id(broker: int | None) -> str:
    return "none" if broker is None else str(broker)


def _ids(brokers: Sequence[int]) -> str:
    return ", ".join(map(str, brokers)) or "none"
