"""The packet filter's rules as text: who is named, in which direction, and what happens."""

from __future__ import annotations

import pytest

from fakes.cluster import FakeNode, fake_scene
from kaput.faults.rules import Table, losing, severing
from kaput.scenario.options import Direction

PEERS = ["10.77.0.2", "10.77.0.3"]


@pytest.mark.parametrize(
    ("direction", "hooks"),
    [("both", {"input", "output"}), ("in", {"input"}), ("out", {"output"})],
)
def test_a_direction_is_a_hook(direction: Direction, hooks: set[str]) -> None:
    """What comes in passes the input hook, what goes out the output hook, and nothing else is touched."""
    for text in ("\n".join(severing(PEERS, direction, "drop")), "\n".join(losing(PEERS, direction, 10))):
        assert {hook for hook in ("input", "output", "forward") if f"hook {hook}" in text} == hooks
        assert "elements = { 10.77.0.2, 10.77.0.3 }" in text
        assert ("ip saddr @peers" in text) == ("input" in hooks)
        assert ("ip daddr @peers" in text) == ("output" in hooks)


def test_refusing_lets_its_own_answers_through() -> None:
    """The reset that reject sends passes the same chains, so it must be accepted first."""
    chain = next(line for line in severing(PEERS, "both", "reject") if "hook input" in line)
    assert chain.index("rst accept") < chain.index("reject with tcp reset") < chain.index("@peers drop")
    assert "reject" not in "".join(severing(PEERS, "both", "drop"))


@pytest.mark.parametrize(("percent", "of"), [(10.0, 1000), (0.5, 50), (100.0, 10_000), (0.01, 1)])
def test_a_share_is_drawn_out_of_ten_thousand(percent: float, of: int) -> None:
    """To a hundredth of a percent."""
    assert f"numgen random mod 10000 < {of} " in "".join(losing(PEERS, "in", percent))


def test_each_step_has_a_table_of_its_own() -> None:
    """Named after the step, in letters that the packet filter takes."""
    one, two = (Table(fake_scene(FakeNode(1), step=step), 1) for step in ("1-cut", "2-cut"))
    assert (one.name, two.name) == ("kaput_1_cut", "kaput_2_cut")
