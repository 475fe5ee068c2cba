"""Checks stores, the producers that use them, the replay, and faults on stores.

Called by scenario.py and steps.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from kaput.scenario.block import Found
from kaput.scenario.model import Scenario
from kaput.scenario.nearest import hint
from kaput.scenario.options import STORE_FAULTS
from kaput.scenario.steps import FaultStep
from kaput.scenario.stores import Store
from kaput.scenario.values import target_store

_DEFAULT = "stores: {local: {kind: sqlite}}"


def check_stores(scenario: Scenario) -> Found:
    """Mistakes in stores, in producers that use them, and in the replay."""
    used: set[str] = set()
    for number, spec in enumerate(scenario.workload.producers):
        for index, name in enumerate(spec.on_failure.stores if spec.on_failure else ()):
            used.add(name)
            if name not in scenario.stores:
                place = ("workload", "producers", number, "on-failure", "stores", index)
                yield place, _no_store(name, scenario)
    for name, store in scenario.stores.items():
        if name not in used:
            yield ("stores", name), f"no producer uses it; write on-failure: {{stores: [{name}]}} in one"
        if store.disk_mb is not None and scenario.cluster.network == "loopback":
            yield ("stores", name, "disk-mb"), "disk-mb needs cluster.network: namespaces"
    if scenario.workload.replay is not None and not scenario.stores:
        yield ("workload", "replay"), f"there is nothing to replay without stores; write {_DEFAULT}"


def _no_store(name: str, scenario: Scenario) -> str:
    return f"no such store: {name}; {hint(name, scenario.stores) if scenario.stores else f'write {_DEFAULT}'}"


def check_store_target(step: FaultStep, scenario: Scenario) -> Found:
    """Mistakes in a step that targets a store."""
    name = target_store(step.target)
    if name is None:
        return
    if step.fault not in STORE_FAULTS:
        yield ("target",), f"{step.fault} does not hit stores; {', '.join(STORE_FAULTS)} do"
    elif name not in scenario.stores:
        yield ("target",), _no_store(name, scenario)
    else:
        for text in _untouchable(step.fault, name, scenario.stores[name]):
            yield ("target",), text


def _untouchable(fault: str, name: str, store: Store) -> Iterator[str]:
    if store.where is not None:
        yield f"{name} is your own server, which kaput does not touch"
    elif fault != "disk-full" and not store.is_server:
        yield f"{store.kind} has no process; write disk-full, or a store with a server such as mongodb"
    elif fault == "disk-full" and store.disk_mb is None:
        yield f"{name} needs its own disk; write disk-mb: 64 in stores.{name}"
