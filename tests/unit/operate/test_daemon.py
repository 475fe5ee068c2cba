"""The daemon's requests about faults, with real lives of faults on nodes that are doubles."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest

from fakes.standing_lab import StandingLab
from fakes.world import World
from kaput.operate.daemon import Daemon
from kaput.operate.fault_injection import FaultInjector, Healed, InjectedFault
from kaput.operate.registry import directory_of
from kaput.scenario.model import Cluster
from waiting import wait_for


class BreakableLab(StandingLab):
    """Its faults are those of a lab."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World("kill")
        self.spec = Cluster(brokers=3, controllers=1)
        self.faults = FaultInjector(
            self.world.nodes,  # type: ignore[arg-type]
            self.world.network,  # type: ignore[arg-type]
            self.world.admin,  # type: ignore[arg-type]
            lambda: self.spec,
        )

    def inject_for(self, ms: int | None, fault: str, target: str, **options: object) -> InjectedFault:
        return self.faults.inject(fault, target, options, ms)

    def heal(self, name: str) -> Healed:
        return self.faults.heal(name)

    def heal_all(self) -> list[Healed]:
        return self.faults.heal_all()

    def fault_history(self) -> list[dict[str, Any]]:
        return self.faults.history()


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> Iterator[BreakableLab]:
    """No cluster is registered for it."""
    with tempfile.TemporaryDirectory(prefix="k-") as short:
        monkeypatch.setenv("XDG_STATE_HOME", short)
        yield BreakableLab()


def asked(daemon: Daemon, **request: object) -> dict[str, Any]:
    """The daemon's answer."""
    return daemon.answer(json.dumps(request).encode())


def kill(daemon: Daemon, broker: int, for_ms: int | None = None) -> dict[str, Any]:
    """Kills a broker."""
    return asked(daemon, do="inject", fault="kill", target=f"broker {broker}", options={}, for_ms=for_ms)


def states(daemon: Daemon) -> list[str]:
    return [each["state"] for each in asked(daemon, do="faults")["result"]]


def test_healing_all_goes_on_past_a_heal_that_is_not_confirmed(lab: BreakableLab) -> None:
    """The error names it, and what is healed; nothing stays active, and the list shows which is which."""
    daemon = Daemon(directory_of("lab"), lab)  # type: ignore[arg-type]
    for broker in (1, 2, 3):
        assert kill(daemon, broker)["result"]["state"] == "active"
    lab.world.nodes[2].fails = True
    answer = asked(daemon, do="heal", fault=None)
    assert answer["usage"] is False
    assert answer["error"].startswith(
        "1 of 3 faults: 2-kill: kill broker 2 is not confirmed to be healed: broker 2 (pid 1002): SIGKILL"
    )
    assert answer["error"].endswith(" (healed: 1-kill, 3-kill)")
    assert states(daemon) == ["healed", "not proven", "healed"]
    assert lab.faults.active == [] and "no fault is active" in asked(daemon, do="heal")["error"]


def test_healing_all_heals_what_is_still_active(lab: BreakableLab) -> None:
    """What its own time has healed meanwhile is left alone."""
    daemon = Daemon(directory_of("lab"), lab)  # type: ignore[arg-type]
    kill(daemon, 1, for_ms=1)
    kill(daemon, 2)
    wait_for(lambda: states(daemon) == ["healed", "active"], "the heal of the first one")
    assert [each["id"] for each in asked(daemon, do="heal")["result"]] == ["2-kill"]


def test_a_heal_whose_time_comes_and_is_not_confirmed_is_in_the_list(lab: BreakableLab) -> None:
    """With its proof; nobody waits for an answer there."""
    daemon = Daemon(directory_of("lab"), lab)  # type: ignore[arg-type]
    lab.world.node.fails = True
    kill(daemon, 1, for_ms=1)
    wait_for(lambda: states(daemon) != ["active"], "the heal")
    (found,) = asked(daemon, do="faults")["result"]
    assert found["state"] == "not proven" and "does not run" in found["proof"] and found["healed_ns"]
