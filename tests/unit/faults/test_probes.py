"""Probes: what is sent, for how long is waited, and what is counted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fakes.cluster import FakeNode, fake_scene
from fakes.network import FakeNetwork
from kaput.cluster.access import Access
from kaput.cluster.properties import NodeLayout
from kaput.faults import probes
from kaput.faults.rules import blocking, dropping

NODES = [FakeNode(1), FakeNode(2), FakeNode(101, role="controller")]


def test_each_path_is_probed_from_its_source() -> None:
    """The clients, and nodes; those that fail do not keep the others from being told."""
    network = FakeNetwork(deaf={101})
    network.tables[1] = {"x": blocking([network.clients], "in", "drop")}
    scene = fake_scene("noop", *NODES, network=network)
    paths = {(0, 1), (2, 1), (0, 2), (1, 101)}
    assert probes.reached(paths, scene, 0.5) == {(2, 1), (0, 2)}
    assert probes.reached(set(), scene, 0.5) == set()


def test_connection_after_the_timeout_is_not_reached() -> None:
    """The time is what was told."""
    scene = fake_scene("noop", *NODES, network=FakeNetwork(slow_s=0.4))
    assert probes.reached({(0, 1)}, scene, 0.5) == {(0, 1)}
    assert probes.reached({(0, 1)}, scene, 0.3) == set()


def test_heal_probe_waits_for_all_paths_or_the_timeout() -> None:
    """It tells who is not, and tries again and again for some seconds."""
    network = FakeNetwork(deaf={1, 2})

    class Wakes(type(network.clock)):  # type: ignore[misc]
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            if self.now() > 1004.9:
                network.deaf.discard(1)

    network.clock = Wakes()
    scene = fake_scene("noop", *NODES, network=network)
    left, ended = probes.healed({(0, 1), (0, 2)}, scene)
    assert left == {(0, 2)} and ended > 10**18
    assert 1005 <= network.clock.now() < 1005.1
    before = network.clock.now()
    assert probes.healed({(0, 1)}, scene)[0] == set() == probes.healed(set(), scene)[0]
    assert network.clock.now() == before


@pytest.mark.parametrize(
    ("path", "direction"), [((0, 1), "in"), ((1, 0), "out"), ((2, 1), "in"), ((1, 2), "out")]
)
def test_sent_and_received_datagrams_are_counted(path: tuple[int, int], direction: str) -> None:
    """In either direction, also where the sender is told that it may not send."""
    network = FakeNetwork()
    scene = fake_scene("noop", *NODES, network=network)
    assert probes.send_datagrams(path, scene, 320, 1.5) == (320, 320)
    assert probes.send_datagrams(path, scene, 300, 1.5) == (320, 320)
    network.filter(1).put("x", dropping([network.clients, "10.77.0.2"], direction, 25))  # type: ignore[arg-type]
    sent, arrived = probes.send_datagrams(path, scene, 320, 1.5)
    counted = network.filter(1).counters("x")
    assert sent == 320 == counted[f"{direction}_seen"]
    assert arrived == 320 - counted[f"{direction}_dropped"] and 200 < arrived < 280


def test_datagram_probe_has_a_time_limit() -> None:
    """Where all are lost, each handful waits a little."""
    network = FakeNetwork()
    network.filter(1).put("x", dropping([network.clients], "in", 100))
    scene = fake_scene("noop", *NODES, network=network)
    sent, arrived = probes.send_datagrams((0, 1), scene, 10**9, 0.99)
    assert arrived == 0 and sent == 32 * 50
    assert network.clock.now() == pytest.approx(1001.0)


def test_probe_uses_the_client_listener_or_the_controller_listener() -> None:
    """A controller has no port for clients."""
    scene = fake_scene("noop", *NODES)
    assert probes.endpoint(1, scene).address == ("10.77.0.1", 9092)
    assert probes.endpoint(101, scene).address == ("10.77.0.101", 9093)


def test_probe_uses_the_credentials_of_the_listener() -> None:
    """Clients where brokers listen to them, voters where controllers do."""
    outside, controller_access = (
        Access({"security.protocol": "SSL"}),
        Access({"security.protocol": "SASL_SSL"}),
    )

    class Guarded(FakeNode):
        @property
        def layout(self) -> NodeLayout:
            return replace(super().layout, access=outside, controller_access=controller_access)

    scene = fake_scene("noop", Guarded(1), Guarded(101, role="controller"))
    assert (
        probes.endpoint(1, scene).access is outside
        and probes.endpoint(101, scene).access is controller_access
    )
