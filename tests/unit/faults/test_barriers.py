"""The proof of a cut: it is given for what the cut itself did, and for nothing else."""

from __future__ import annotations

import re
import threading
from typing import Any

import pytest

from fakes.cluster import FakeNode, fake_scene
from fakes.network import FakeNetwork
from kaput.errors import LabError
from kaput.faults import probes
from kaput.faults.barriers import BarrierFault
from kaput.faults.cut import Cut
from kaput.faults.fault import Effect
from kaput.faults.flap import Flap
from kaput.faults.isolate import Isolate
from kaput.faults.partition import Partition
from kaput.faults.rules import blocking
from waiting import PATIENCE_S, wait_for


def inject(
    network: FakeNetwork, kind: type[BarrierFault] = Isolate, **options: Any
) -> tuple[BarrierFault, list[FakeNode], Effect]:
    """A fault on broker 1 of three brokers and a controller, and what it proved."""
    nodes = [FakeNode(1), FakeNode(2), FakeNode(3), FakeNode(101, role="controller")]
    fault = kind(fake_scene(kind.name, *nodes, step="1-x", network=network, **options))
    return fault, nodes[:1], fault.inject(nodes[:1])


def test_isolation_is_proven_and_healed() -> None:
    """Who is cut off, who is not, how many packets, and that all is well afterwards."""
    network = FakeNetwork()
    fault, nodes, effect = inject(network)
    assert effect.confirmed and "still reached by the clients" in effect.proof
    assert "cut off from broker 2, broker 3, controller 101" in effect.proof
    _, after = fault.heal(nodes, effect)  # type: ignore[arg-type]
    assert after.confirmed and "all connect again" in after.proof
    assert not any(network.tables.values())


def test_rules_without_effect_are_not_effective() -> None:
    """The packet filter took them, and everybody still connects."""
    _, _, effect = inject(FakeNetwork(works=False))
    assert not effect.confirmed and "node 1 is still reached by broker 2" in effect.proof


def test_rules_that_matched_no_packet_are_not_effective() -> None:
    """Connections fail, but not because of us."""
    _, _, effect = inject(FakeNetwork(counts=False))
    assert not effect.confirmed and "packets so far: 0" in effect.proof


def test_target_unreachable_before_the_cut_proves_nothing() -> None:
    """That it is not reached now is no doing of the cut's."""
    _, _, effect = inject(FakeNetwork(deaf={1}))
    assert not effect.confirmed and "none of them connected before" in effect.proof


def test_cut_that_also_blocks_other_parties_is_not_effective() -> None:
    """The clients of an isolated node must still reach it."""

    class TooMuch(FakeNetwork):
        def reaches(self, source: int | None, target: int) -> bool:
            return super().reaches(source, target) and not self.tables.get(1)

    _, _, effect = inject(TooMuch())
    assert not effect.confirmed and "node 1 is no longer reached by the clients" in effect.proof


def test_ineffective_heal_of_a_cut_is_reported() -> None:
    """The rules are gone, and the connections do not come back."""
    fault, nodes, effect = inject(FakeNetwork(stays=True))
    assert effect.confirmed
    _, after = fault.heal(nodes, effect)  # type: ignore[arg-type]
    assert not after.confirmed and "still cut: node 1 not from broker 2" in after.proof


def test_rules_of_another_step_are_kept() -> None:
    """Each step has a table of its own, and what it cannot judge alone it does not judge."""
    network = FakeNetwork()
    network.tables[1] = {"kaput_9_cut": blocking(["10.77.0.2"], "in", "drop")}
    fault, nodes, effect = inject(network, Cut, from_=("broker 3",))
    assert effect.confirmed
    _, after = fault.heal(nodes, effect)  # type: ignore[arg-type]
    assert after.confirmed and "connect again" not in after.proof
    assert list(network.tables[1]) == ["kaput_9_cut"]


def test_flapping_link_healed_while_up_is_not_cut_again() -> None:
    """It stops where it is; packets of all cuts are counted."""
    network = FakeNetwork()
    fault, nodes, effect = inject(network, Flap, from_=("all-nodes",), down=1, up=60_000)
    assert effect.confirmed and isinstance(fault, Flap)
    for _ in range(500):
        if not network.tables[1]:
            break
        fault.abandoned.wait(0.01)
    _, after = fault.heal(nodes, effect)  # type: ignore[arg-type]
    assert after.confirmed and "times cut: 1" in after.proof and not any(network.tables.values())
    (worked_ns,) = after.toggles_ns
    assert after.proof.endswith("to the heal s after its effect)") and worked_ns > (effect.effective_ns or 0)


def test_aborted_flap_stops() -> None:
    """A run that is being ended waits for nobody; one that never began can be abandoned as well."""
    fault, _, _ = inject(FakeNetwork(), Flap, from_=("all-nodes",), down=60_000, up=60_000)
    fault.abandon()
    assert isinstance(fault, Flap)
    fault._thread.join(PATIENCE_S)
    assert not fault._thread.is_alive()


def test_cut_is_not_effective_if_one_target_had_no_connections() -> None:
    """Of two targets one was reached by nobody before: that nobody reaches it now proves nothing of it."""
    network = FakeNetwork(deaf={2})
    nodes = [FakeNode(1), FakeNode(2), FakeNode(3)]
    fault = Partition(fake_scene("partition", *nodes, step="1-x", network=network))
    # Broker 3 reaches broker 1 alone.
    effect = fault.inject(nodes[:2])  # type: ignore[arg-type]
    assert not effect.confirmed
    assert "node 2 had no connection before, so nothing is proven about it" in effect.proof
    assert "the rules of node 2" not in effect.proof  # nothing was tried on them


def test_rules_of_every_node_must_match_a_packet() -> None:
    """What the rules of one node drop proves nothing of another's."""

    nodes = [FakeNode(1), FakeNode(2), FakeNode(3)]
    fault = Isolate(fake_scene("isolate", *nodes, network=FakeNetwork(uncounted={2})))
    effect = fault.inject(nodes[:2])  # type: ignore[arg-type]
    assert not effect.confirmed and "the rules of node 2 have matched no packet" in effect.proof
    assert "rules of node 1" not in effect.proof


def test_rules_removed_before_the_heal_are_not_effective() -> None:
    """Somebody flushed the packet filter while the cut was meant to last."""
    network = FakeNetwork()
    fault, nodes, effect = inject(network)
    network.tables[1].clear()
    healed, after = fault.heal(nodes, effect)  # type: ignore[arg-type]
    assert not after.confirmed and healed is not None
    assert "the rules of node 1 were gone before the heal" in after.proof
    assert "node 1 is still reached by broker 2" in after.proof


def test_cut_leaking_before_its_heal_is_not_effective() -> None:
    """The rules are there and do nothing any more."""
    network = FakeNetwork()
    fault, nodes, effect = inject(network)
    network.works = False
    _, after = fault.heal(nodes, effect)  # type: ignore[arg-type]
    assert not after.confirmed and "node 1 is still reached by broker 2" in after.proof


@pytest.mark.parametrize(("switch", "healed"), [("works", True), ("keeps", False)])
def test_heal_of_an_unreachable_target_relies_on_the_packet_filter(switch: str, healed: bool) -> None:
    """The target does not answer: only rules that are seen to be gone are called so, and no more is said."""
    network = FakeNetwork()
    fault, nodes, effect = inject(network)
    nodes[0].running = False
    setattr(network, switch, True)
    moment, after = fault.heal(nodes, effect)  # type: ignore[arg-type]
    assert (moment is not None, after.confirmed) == (healed, healed)
    assert ("lifted: the rules are gone" in after.proof) == healed
    assert "connections could not be tried" in after.proof and "connect again" not in after.proof
    assert ("the rules of node 1 are still there after the heal" in after.proof) != healed


def test_paused_target_is_not_probed() -> None:
    """The kernel would take the connection for it; but who is paused proves nothing."""
    fault, nodes, effect = inject(FakeNetwork())
    nodes[0].stopped = True
    _, after = fault.heal(nodes, effect)  # type: ignore[arg-type]
    assert "could not be tried" in after.proof


class Unsteady(FakeNetwork):
    """Rules work, but for those that are put the second time."""

    def has_put(self, number: int) -> None:
        self.works = number != 2


def wait_for_cuts(fault: BarrierFault, cuts: int) -> None:
    """Until the link was cut that often, or has stopped flapping."""
    assert isinstance(fault, Flap)
    wait_for(lambda: fault._cuts >= cuts or not fault._thread.is_alive(), f"cut {cuts}")


def test_every_cut_of_a_flapping_link_must_be_effective() -> None:
    """The second one does nothing: the first one's proof does not stand for it."""
    fault, nodes, effect = inject(Unsteady(), Flap, from_=("all-nodes",), down=10, up=10)
    assert effect.confirmed
    wait_for_cuts(fault, 3)
    _, after = fault.heal(nodes, effect)  # type: ignore[arg-type]
    assert not after.confirmed and "in cut 2 node 1 is still reached by broker 2" in after.proof
    troubles = [
        f"in cut 2 node 1 is still reached by {who}" for who in ("broker 2", "broker 3", "controller 101")
    ]
    shown = after.proof.partition("; times cut: 2 (it worked from ")[2]
    assert shown.endswith("; ".join([" s after its effect)", *troubles]))


def test_flapping_link_must_be_up_between_cuts() -> None:
    """Where it is not, it is a cut, and no flapping."""
    network = FakeNetwork()
    fault, nodes, effect = inject(network, Flap, from_=("all-nodes",), down=10, up=10)
    assert effect.confirmed
    network.stays = True
    wait_for_cuts(fault, 99)
    network.stays, network.ghosts = False, {}
    healed, after = fault.heal(nodes, effect)  # type: ignore[arg-type]
    assert not after.confirmed and "node 1 was not reached by broker 2" in after.proof
    assert healed is not None and "all connect again" in after.proof


def test_removed_rules_of_a_flapping_link_are_reported() -> None:
    """Somebody took them away while it was cut."""
    network = FakeNetwork()
    fault, nodes, effect = inject(network, Flap, from_=("all-nodes",), down=200, up=10)
    network.tables[1].clear()
    wait_for_cuts(fault, 99)
    _, after = fault.heal(nodes, effect)  # type: ignore[arg-type]
    assert not after.confirmed and "the rules of node 1 were gone" in after.proof


def test_flap_cut_must_hold_until_the_heal() -> None:
    """As of any other cut."""
    network = FakeNetwork()
    fault, nodes, effect = inject(network, Flap, from_=("all-nodes",), down=60_000, up=10)
    network.works = False
    _, after = fault.heal(nodes, effect)  # type: ignore[arg-type]
    assert not after.confirmed and "node 1 is still reached by broker 2" in after.proof
    assert after.proof.endswith("; times cut: 1")


def test_flap_probe_timeout_is_the_down_time() -> None:
    """The proof that it is cut again waits for an answer no longer than the cut lasts."""
    network = FakeNetwork()
    fault, nodes, effect = inject(network, Flap, from_=("all-nodes",), down=10, up=10)
    wait_for_cuts(fault, 6)
    fault.heal(nodes, effect)  # type: ignore[arg-type]
    assert {made.timeout_s for made in network.made} == {probes.BEFORE_S, probes.DURING_S, 0.01}


def test_packets_of_a_single_flap_cut_are_counted_once() -> None:
    """As the packet filter has them when it is lifted."""
    network = FakeNetwork()
    fault, nodes, effect = inject(network, Flap, from_=("all-nodes",), down=60_000, up=10)
    _, after = fault.heal(nodes, effect)  # type: ignore[arg-type]
    dropped = sum(network.counted[1, "kaput_1_x"].values())
    assert f" ms {dropped} packets dropped, lifted" in after.proof


def test_later_flap_cut_must_hold_until_the_heal() -> None:
    """As the first one. The second one is still proven, and then not lifted any more."""

    class EndsCut(FakeNetwork):
        def has_put(self, number: int) -> None:
            if number == 2:
                assert injected.wait(60)
                fault.abandon()

    network, injected = EndsCut(), threading.Event()
    fault, nodes, effect = inject(network, Flap, from_=("all-nodes",), down=10, up=10)
    assert isinstance(fault, Flap)
    injected.set()
    wait_for(lambda: not fault._thread.is_alive(), "the end of the flapping in its second cut")
    network.works = False
    _, after = fault.heal(nodes, effect)  # type: ignore[arg-type]
    worked = r"; times cut: 2 \(it worked from 0\.0 to \d+\.\d s after its effect\)"
    assert not after.confirmed and re.search(worked + "$", after.proof)


def test_flap_proof_counts_cuts_and_packets() -> None:
    """And the packets of all of them."""
    network = FakeNetwork()
    fault, nodes, effect = inject(network, Flap, from_=("all-nodes",), down=10, up=10)
    wait_for_cuts(fault, 3)
    _, after = fault.heal(nodes, effect)  # type: ignore[arg-type]
    assert after.confirmed, after.proof
    (cuts,) = re.findall(r"times cut: (\d+)", after.proof)
    assert len(after.toggles_ns) // 2 == int(cuts) - 1 and list(after.toggles_ns) == sorted(after.toggles_ns)
    (first,) = re.findall(r"packets so far: (\d+)", after.proof)
    (dropped,) = re.findall(r"ms ([\d,]+) packets dropped", after.proof)
    last = sum(network.counted[1, "kaput_1_x"].values())
    assert int(cuts) >= 3 and int(first) > 0
    assert int(dropped.replace(",", "")) == network.before[1, "kaput_1_x"] + last > int(first)


def test_flap_reports_rules_that_cannot_be_reinstalled() -> None:
    """The kernel refuses: the thread ends, and the heal tells why."""

    network = FakeNetwork()
    fault, nodes, effect = inject(network, Flap, from_=("all-nodes",), down=10, up=10)
    network.refuses = {1}
    wait_for_cuts(fault, 99)
    _, after = fault.heal(nodes, effect)  # type: ignore[arg-type]
    assert not after.confirmed and "the link stopped flapping: no buffer space available" in after.proof


def test_later_flap_cuts_must_match_packets() -> None:
    """Unless another step's rules are there, which may have met them first."""
    for other, bit in (({}, False), ({"kaput_9_isolate": []}, True)):
        network = FakeNetwork()
        fault, nodes, effect = inject(network, Flap, from_=("all-nodes",), down=10, up=10)
        network.tables[1] |= other
        network.uncounted = {1}
        wait_for_cuts(fault, 3)
        _, after = fault.heal(nodes, effect)  # type: ignore[arg-type]
        assert after.confirmed is bit
        assert ("; in cut 2 the rules of node 1 have matched no packet" in after.proof) is not bit


@pytest.mark.parametrize(
    ("direction", "how", "way", "verb"),
    [
        ("both", "drop", "from", "dropped"),
        ("in", "drop", "for what comes from", "dropped"),
        ("out", "reject", "for what goes to", "refused"),
    ],
)
def test_exact_proof_text_of_a_cut(direction: str, how: str, way: str, verb: str) -> None:
    """Who, from whom, in which direction, how; what was tried, what is left, what was counted."""
    network = FakeNetwork()
    fault, nodes, effect = inject(network, Cut, from_=("broker 2", "clients"), direction=direction, how=how)
    dropped = sum(network.counted[1, "kaput_1_x"].values())
    assert effect.proof == (
        f"broker 1: cut off {way} broker 2, the clients, packets {verb};"
        " connections that were possible and now fail: 2;"
        f" still reached by broker 3, controller 101; packets so far: {dropped}"
    )
    assert {rule.verdict for chain in network.tables[1]["kaput_1_x"] for rule in chain.rules} == (
        {"", "drop"} if how == "drop" else {"", "drop", "accept", "reset"}
    )
    _, after = fault.heal(nodes, effect)  # type: ignore[arg-type]
    told = re.fullmatch(
        r"in (\d+) ms (\d+) packets dropped, lifted: the rules are gone,"
        r" all connect again after (\d+) ms \(2 of 2 tried\)",
        after.proof.removeprefix(f"{effect.proof}; "),
    )
    assert told is not None, after.proof
    assert int(told[1]) < 5000 and int(told[2]) >= dropped and int(told[3]) < 5000


def test_exact_proof_text_of_a_failed_heal() -> None:
    """Who is still cut from whom, and how long that was tried."""
    fault, nodes, effect = inject(FakeNetwork(stays=True), Cut, from_=("broker 2", "clients"))
    _, after = fault.heal(nodes, effect)  # type: ignore[arg-type]
    assert after.proof.endswith(
        "packets dropped, lifted: the rules are gone,"
        " 5 s later still cut: node 1 not from the clients; node 1 not from broker 2"
    )
    fault, nodes, effect = inject(FakeNetwork())
    nodes[0].running = False
    _, after = fault.heal(nodes, effect)  # type: ignore[arg-type]
    assert after.proof.endswith(", lifted: the rules are gone, connections could not be tried")


def test_cut_without_another_party_is_not_effective() -> None:
    """Nothing is put, nothing is healed."""
    network = FakeNetwork()
    fault, nodes, effect = inject(network, Cut, from_=("broker 1",))
    said = "broker 1 (pid 1001): there are no other parties to cut it off from"
    assert (effect.effective_ns, effect.confirmed, effect.proof) == (None, False, said)
    healed, after = fault.heal(nodes, effect)  # type: ignore[arg-type]
    assert healed is not None and after == effect and not network.puts


def test_exact_proof_text_of_a_target_without_connections() -> None:
    """Where nobody reached the target before."""
    _, _, effect = inject(FakeNetwork(deaf={1}), Cut, from_=("broker 2",))
    assert effect.proof == (
        "broker 1: cut off from broker 2, packets dropped;"
        " connections that were possible and now fail: 0;"
        " none of them connected before, so nothing is proven;"
        " node 1 had no connection before, so nothing is proven about it; packets so far: 0"
    )


@pytest.mark.parametrize("switch", ["keeps", "stays"])
def test_rules_left_by_a_failed_injection_are_not_healed(switch: str) -> None:
    """Listed, or felt."""
    network = FakeNetwork(**{switch: True})
    fault, nodes, _ = inject(network)
    healed, after = fault.heal(nodes, Effect(None, False, "failed"))  # type: ignore[arg-type]
    assert healed is None and not after.confirmed


def test_partially_installed_rules_are_removed() -> None:
    """One node's packet filter refuses: the injection fails, and the heal leaves nothing of the other's."""

    network = FakeNetwork(refuses={2})
    nodes = [FakeNode(1), FakeNode(2), FakeNode(3)]
    fault = Isolate(fake_scene("isolate", *nodes, network=network))
    with pytest.raises(LabError, match="no buffer space"):
        fault.inject(nodes[:2])  # type: ignore[arg-type]
    healed, after = fault.heal(nodes[:2], Effect(None, False, "failed"))  # type: ignore[arg-type]
    assert healed is not None and not after.confirmed and not any(network.tables.values())
