"""Rules of the packet filter in a node's own namespace: one table for each step, so that steps never meet.

Its place: network faults write the chains; here they are put, counted and taken away.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kaput.cluster.network.interface import PacketFilter
from kaput.cluster.network.packets import SHARE_OF, Chain, Hook, Rule
from kaput.faults.fault import Scene
from kaput.scenario.options import Direction, How

_PREFIX = "kaput_"
_WAYS: tuple[tuple[Direction, Hook], ...] = (("in", "input"), ("out", "output"))


@dataclass(frozen=True)
class StepRules:
    """The table of one step in the namespace of one node."""

    scene: Scene
    node: int

    @property
    def name(self) -> str:
        """`kaput_1_cut`"""
        return _PREFIX + re.sub(r"\W", "_", self.scene.step)

    def put(self, chains: Sequence[Chain]) -> None:
        """Makes the table, all of it at once; one of this name that is there already gives way."""
        self._filter.put(self.name, chains)

    def remove(self) -> None:
        """Takes it away, whether it is there or not."""
        self._filter.remove(self.name)

    def counters(self) -> dict[str, int]:
        """Packets counted so far, by the counter's name. Raises LabError where there is no table."""
        return self._filter.counters(self.name)

    def exists(self) -> bool:
        """Whether it is in place."""
        return self.name in self._filter.tables()

    def alone(self) -> bool:
        """Whether no other step has rules in this namespace."""
        return not {name for name in self._filter.tables() - {self.name} if name.startswith(_PREFIX)}

    @property
    def _filter(self) -> PacketFilter:
        return self.scene.network.filter(self.node)


def blocking(addresses: Sequence[str], direction: Direction, how: How) -> list[Chain]:
    """Chains that let nothing through from or to the addresses, with the counters `in_` and `out_dropped`."""
    chains = []
    for way, hook in _WAYS:
        if direction in ("both", way):
            rules = [Rule(counter=f"{way}_dropped"), Rule("drop")]
            if how == "reject":
                # What reject itself sends must get through: it passes these chains too.
                rules = [Rule("accept", resets=True), rules[0], Rule("reset", tcp=True), rules[1]]
            chains.append(Chain(way, hook, tuple(addresses), tuple(rules)))
    return chains


def dropping(addresses: Sequence[str], direction: Direction, percent: float) -> list[Chain]:
    """Chains that drop a share of the packets, drawn at random; with counts of all and of the dropped."""
    share = round(percent / 100 * SHARE_OF)
    chains = []
    for way, hook in _WAYS:
        if direction in ("both", way):
            rules = (Rule(counter=f"{way}_seen"), Rule("drop", counter=f"{way}_dropped", share=share))
            chains.append(Chain(way, hook, tuple(addresses), rules))
    return chains
