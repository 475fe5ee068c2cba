"""The packet filter's rules: who is named, in which direction, and what happens."""

from __future__ import annotations

import pytest

from fakes.cluster import FakeNode, fake_scene
from kaput.cluster.network.interface import PacketRule
from kaput.faults.rules import StepRules, blocking, dropping
from kaput.scenario.fault_kinds import Direction

PEERS = ["10.77.0.2", "10.77.0.3"]


@pytest.mark.parametrize(
    ("direction", "hooks"),
    [("both", ["input", "output"]), ("in", ["input"]), ("out", ["output"])],
)
def test_direction_selects_the_netfilter_hooks(direction: Direction, hooks: list[str]) -> None:
    """What comes in passes the input hook, what goes out the output hook, and nothing else is touched."""
    for chains in (blocking(PEERS, direction, "drop"), dropping(PEERS, direction, 10)):
        assert [chain.hook for chain in chains] == hooks
        assert [f"{chain.name}put" for chain in chains] == hooks
        assert all(chain.peers == ("10.77.0.2", "10.77.0.3") for chain in chains)


def test_drop_rules_count_then_drop() -> None:
    """Each direction under a name of its own."""
    found = [chain.rules for chain in blocking(PEERS, "both", "drop")]
    assert found == [
        (PacketRule(counter="in_dropped"), PacketRule("drop")),
        (PacketRule(counter="out_dropped"), PacketRule("drop")),
    ]


def test_reject_rules_accept_their_own_resets() -> None:
    """The reset that reject sends passes the same chains, so it is accepted first, uncounted."""
    (chain,) = blocking(PEERS, "in", "reject")
    assert chain.rules == (
        PacketRule("accept", resets=True),
        PacketRule(counter="in_dropped"),
        PacketRule("reset", tcp=True),
        PacketRule("drop"),
    )


@pytest.mark.parametrize(("percent", "of"), [(10.0, 1000), (0.5, 50), (100.0, 10_000), (0.01, 1)])
def test_loss_rate_has_a_resolution_of_one_in_ten_thousand(percent: float, of: int) -> None:
    """To a hundredth of a percent; all packets are counted beside those dropped."""
    (chain,) = dropping(PEERS, "in", percent)
    assert chain.rules == (PacketRule(counter="in_seen"), PacketRule("drop", counter="in_dropped", share=of))


def test_each_step_has_its_own_table() -> None:
    """Named after the step, in letters that the packet filter takes."""
    one, two = (StepRules(fake_scene("noop", FakeNode(1), step=step), 1) for step in ("1-cut", "2-cut"))
    assert (one.name, two.name) == ("kaput_1_cut", "kaput_2_cut")
