"""The proof of a cut: it is given for what the cut itself did, and for nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fakes.cluster import FakeAdmin, FakeNode
from fakes.network import FakeNetwork
from kaput.faults import probes
from kaput.faults.cut import Cut
from kaput.faults.fault import Effect, Scene
from kaput.faults.flap import Flap
from kaput.faults.isolate import Isolate
from kaput.faults.rules import severing
from kaput.faults.severing import Severing
from kaput.scenario.options import Options


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody waits five seconds for what a double will never do."""
    monkeypatch.setattr(probes, "HEALED_S", 0.2)
    yield


def inject(
    network: FakeNetwork, kind: type[Severing] = Isolate, **options: str | tuple[str, ...] | int
) -> tuple[Severing, list[FakeNode], Effect]:
    """A fault on broker 1 of three brokers and a controller, and what it proved."""
    nodes = [FakeNode(1), FakeNode(2), FakeNode(3), FakeNode(101, role="controller")]
    by_id = {node.id: node for node in nodes}
    told = Options(**options)  # type: ignore[arg-type]
    fault = kind(Scene("1-x", told, by_id, network, FakeAdmin(), []))  # type: ignore[arg-type]
    return fault, nodes[:1], fault.inject(nodes[:1])  # type: ignore[arg-type]


def test_an_isolation_that_works_is_proven_and_healed() -> None:
    """Who is cut off, who is not, how many packets, and that all is well afterwards."""
    network = FakeNetwork()
    fault, nodes, effect = inject(network)
    assert effect.bit and "still reached by the clients" in effect.proof
    assert "cut off from broker 2, broker 3, controller 101" in effect.proof
    _, after = fault.heal(nodes, effect)  # type: ignore[arg-type]
    assert after.bit and "all connect again" in after.proof
    assert not any(network.tables.values())


def test_rules_that_do_nothing_did_not_bite() -> None:
    """The packet filter took them, and everybody still connects."""
    _, _, effect = inject(FakeNetwork(works=False))
    assert not effect.bit and "node 1 is still reached by broker 2" in effect.proof


def test_rules_that_met_no_packet_did_not_bite() -> None:
    """Connections fail, but not because of us."""
    _, _, effect = inject(FakeNetwork(counts=False))
    assert not effect.bit and "packets so far: 0" in effect.proof


def test_a_node_that_nobody_reached_before_proves_nothing() -> None:
    """That it is not reached now is no doing of the cut's."""
    _, _, effect = inject(FakeNetwork(deaf={1}))
    assert not effect.bit and "none of them connected before" in effect.proof


def test_a_cut_that_hits_others_as_well_is_not_what_was_asked_for() -> None:
    """The clients of an isolated node must still reach it."""

    class TooMuch(FakeNetwork):
        def reaches(self, source: int | None, target: int) -> bool:
            return super().reaches(source, target) and not self.tables.get(1)

    _, _, effect = inject(TooMuch())
    assert not effect.bit and "node 1 is no longer reached by the clients" in effect.proof


def test_a_heal_that_does_not_heal_is_said() -> None:
    """The rules are gone, and the connections do not come back."""
    fault, nodes, effect = inject(FakeNetwork(stays=True))
    assert effect.bit
    _, after = fault.heal(nodes, effect)  # type: ignore[arg-type]
    assert not after.bit and "still cut: node 1 not from broker 2" in after.proof


def test_rules_of_another_step_stay() -> None:
    """Each step has a table of its own, and what it cannot judge alone it does not judge."""
    network = FakeNetwork()
    network.tables[1] = {"kaput_9_cut": severing(["10.77.0.2"], "in", "drop")}
    fault, nodes, effect = inject(network, Cut, from_=("broker 3",))
    assert effect.bit
    _, after = fault.heal(nodes, effect)  # type: ignore[arg-type]
    assert after.bit and "connect again" not in after.proof
    assert list(network.tables[1]) == ["kaput_9_cut"]


def test_a_flapping_link_that_is_up_is_healed_without_another_cut() -> None:
    """It stops where it is; packets of all cuts are counted."""
    network = FakeNetwork()
    fault, nodes, effect = inject(network, Flap, from_=("all-nodes",), down=1, up=60_000)
    assert effect.bit and isinstance(fault, Flap)
    for _ in range(500):
        if not network.tables[1]:
            break
        fault._stop.wait(0.01)
    _, after = fault.heal(nodes, effect)  # type: ignore[arg-type]
    assert after.bit and "times cut: 1" in after.proof and not any(network.tables.values())


def test_an_abandoned_flap_stops() -> None:
    """A run that is being ended waits for nobody; one that never began can be abandoned as well."""
    fault, _, _ = inject(FakeNetwork(), Flap, from_=("all-nodes",), down=60_000, up=60_000)
    fault.abandon()
    assert isinstance(fault, Flap)
    fault._thread.join(5)
    assert not fault._thread.is_alive()
