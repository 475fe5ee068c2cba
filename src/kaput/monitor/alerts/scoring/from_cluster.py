"""Samples of the cluster's state, reconstructed from its recorded events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from kaput.core import qualified
from kaput.errors import EvidenceError
from kaput.evidence.reading import Evidence
from kaput.monitor.signals import Sample
from kaput.scenario.model import Scenario
from kaput.scenario.recorded import read_resolved

_MIN_ISR = "min.insync.replicas"
_NO_LEADER = -1
Place = tuple[str, int]


@dataclass
class _State:
    """The cluster's state so far. `replicas`: by partition, the brokers ever seen in its ISR."""

    brokers: dict[int, bool] = field(default_factory=dict)
    nodes: dict[int, bool] = field(default_factory=dict)  # by node, whether its process runs
    leaders: dict[Place, int] = field(default_factory=dict)
    isr: dict[Place, set[int]] = field(default_factory=dict)
    eligible: dict[Place, set[int]] = field(default_factory=dict)
    replicas: dict[Place, set[int]] = field(default_factory=dict)
    unclean: int = 0

    def apply(self, event: Mapping[str, Any]) -> None:
        """Applies an event."""
        match event["kind"]:
            case "fenced" | "unfenced":
                self.brokers[event["broker"]] = event["kind"] == "unfenced"
            case "started" | "stopped":
                self.nodes[event["broker"]] = event["kind"] == "started"
            case "leader" | "isr" if event["topic"] is not None:
                self._partition((event["topic"], event["partition"]), event)

    def _partition(self, place: Place, event: Mapping[str, Any]) -> None:
        leader = event.get("leader")
        if event["kind"] == "leader" and leader is not None:
            known = self.isr.get(place, set()) | self.eligible.get(place, set())
            self.unclean += bool(known) and leader != _NO_LEADER and leader not in known
            self.leaders[place] = leader
        if event.get("isr") is not None:
            self.isr[place] = set(event["isr"])
            self.replicas.setdefault(place, set()).update(event["isr"])
        if event.get("elr") is not None:
            self.eligible[place] = set(event["elr"])


def cluster_samples(evidence: Evidence, moments: npt.NDArray[np.int64]) -> Iterator[Sample]:
    """Samples at each of these times; none if the run has no such events. Raises EvidenceError."""
    events = sorted(evidence.rows("cluster_events"), key=lambda event: event["at_ns"])
    scenario = _scenario(evidence)
    min_isr = _min_isr(scenario)
    state, applied = _State(), 0
    for at_ns in moments.tolist():
        while applied < len(events) and events[applied]["at_ns"] <= at_ns:
            state.apply(events[applied])
            applied += 1
        for name, value, labels in (*_values(state, min_isr), *_spare(scenario, min_isr)):
            yield Sample(name, float(value), at_ns, labels)


def _values(state: _State, min_isr: Mapping[str, int]) -> Iterator[tuple[str, float, dict[str, str]]]:
    for broker, up in state.brokers.items():
        yield "kaput_broker_up", up, {"broker": str(broker)}
    controllers = [runs for node, runs in state.nodes.items() if node not in state.brokers]
    if state.brokers and controllers:
        yield "kaput_active_controllers", 2 * sum(controllers) > len(controllers), {}
    if not state.leaders:
        return
    yield "kaput_offline_partitions", sum(leader == _NO_LEADER for leader in state.leaders.values()), {}
    under = [place for place, isr in state.isr.items() if len(isr) < min_isr.get(place[0], 1)]
    yield "kaput_under_min_isr_partitions", len(under), {}
    yield "kaput_unclean_elections_total", state.unclean, {}
    lacking = {place: known - state.isr[place] for place, known in state.replicas.items()}
    for broker in state.brokers:
        out = sum(broker in missing for missing in lacking.values())
        led = sum(bool(lacking[place]) for place, leader in state.leaders.items() if leader == broker)
        yield "kaput_out_of_sync_replicas", out, {"broker": str(broker)}
        yield "kaput_under_replicated_partitions", led, {"broker": str(broker)}


def _spare(
    scenario: Scenario | None, min_isr: Mapping[str, int]
) -> Iterator[tuple[str, float, dict[str, str]]]:
    for topic in scenario.topics if scenario is not None else ():
        name = qualified(topic.cluster, topic.name)
        yield "kaput_spare_replicas", topic.replication_factor - min_isr[name], {"topic": name}


def _min_isr(scenario: Scenario | None) -> Mapping[str, int]:
    """min.insync.replicas by topic of the scenario."""
    if scenario is None:
        return {}
    return {
        topic.full_name: int(scenario.topic_setting(topic.full_name, _MIN_ISR, "1"))
        for topic in scenario.topics
    }


def _scenario(evidence: Evidence) -> Scenario | None:
    try:
        return read_resolved(evidence.folder.scenario_path)
    except EvidenceError:
        return None
