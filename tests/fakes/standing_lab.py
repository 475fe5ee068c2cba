"""A standing cluster without brokers: the real daemon, registry and socket over a lab that only remembers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from kaput.errors import FaultError, UsageError
from kaput.operate.daemon import Daemon
from kaput.operate.fault_injection import Healed, InjectedFault
from kaput.operate.registry import directory_of
from kaput.scenario.model import Cluster


class StandingLab:
    """Takes the place of Lab. `done`: what it was asked to do; nothing answers at its address."""

    bootstrap_servers = "127.0.0.1:1"
    client_properties = None

    def __init__(self) -> None:
        self.spec = Cluster(brokers=1)
        self.done: list[tuple[Any, ...]] = []
        self.active_faults: list[InjectedFault] = []
        self._history: dict[str, dict[str, Any]] = {}

    def cluster_id(self) -> None:
        """It has none to tell."""

    def summary(self) -> dict[str, Any]:
        node = {"id": 1, "role": "combined", "state": "running", "pid": 1}
        fixed = {"kafka": "4.3.1", "mode": "kraft", "network": "loopback", "security": "none"}
        servers = {"bootstrap_servers": self.bootstrap_servers, "troubles": []}
        return {**fixed, **servers, "brokers": [node], "others": [], "faults": []}

    def inject_for(self, ms: int | None, fault: str, target: str, **options: object) -> InjectedFault:
        """Remembers it. A pause never takes effect."""
        if fault == "pause":
            raise FaultError(f"pause {target} did not take effect: it went on")
        self.done.append(("inject", fault, target, options))
        now = time.time_ns()
        injected = InjectedFault(f"{len(self.done)}-{fault}", fault, target, [1], now, now, "gone")
        self.active_faults.append(injected)
        entry = {"for_ms": ms, "healed_ns": None, "state": "active"}
        self._history[injected.id] = asdict(injected) | entry
        return injected

    def heal(self, name: str) -> Healed:
        if name not in [each.id for each in self.active_faults]:
            raise UsageError(f"no fault {name} is active")
        self.active_faults = [each for each in self.active_faults if each.id != name]
        self.done.append(("heal", name))
        self._history[name] |= {"state": "healed", "healed_ns": time.time_ns(), "proof": "back"}
        return Healed(name, time.time_ns(), "back")

    def heal_all(self) -> list[Healed]:
        """As Lab's, where every heal is confirmed."""
        if not self.active_faults:
            raise UsageError("no fault is active")
        return [self.heal(each.id) for each in self.active_faults]

    def fault_history(self) -> list[dict[str, Any]]:
        """As Lab's."""
        return list(self._history.values())


@contextmanager
def standing_lab(name: str = "lab") -> Iterator[StandingLab]:
    """Such a cluster, registered and answering, while the block runs: below XDG_STATE_HOME."""
    lab: Any = StandingLab()
    directory = directory_of(name)
    with directory.locked():
        directory.create()
        try:
            with Daemon(directory, lab).serving():
                yield lab
        finally:
            directory.remove()
