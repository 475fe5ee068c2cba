"""Packet filter rules in a node's namespace: one table per step, so that steps do not interfere.

Network faults define the chains; this module adds, counts and removes them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kaput.cluster.network.interface import SHARE_OF, Chain, Hook, PacketFilter, PacketRule
from kaput.faults.fault import Scene
from kaput.scenario.fault_kinds import Direction, How

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
        return _PREFIX + re.sub(r"\W", "_", self.scene.step.id)

    def put(self, chains: Sequence[Chain]) -> None:
        """Creates the table atomically; replaces an existing one of the same name."""
        self._filter.put(self.name, chains)

    def remove(self) -> None:
        """Removes the table if it exists."""
        self._filter.remove(self.name)

    def counters(self) -> dict[str, int]:
        """Packets counted so far, by counter. Raises LabError if there is no table."""
        return self._filter.counters(self.name)

    def exists(self) -> bool:
        """Whether the table is in place."""
        return self.name in self._filter.tables()

    def alone(self) -> bool:
        """Whether no other step has rules in this namespace."""
        return not {name for name in self._filter.tables() - {self.name} if name.startswith(_PREFIX)}

    @property
    def _filter(self) -> PacketFilter:
        return self.scene.network.filter(self.node)


def blocking(addresses: Sequence[str], direction: Direction, how: How) -> list[Chain]:
    """Chains that block everything from or to the addresses, with the counters `in_dropped` and
    `out_dropped`.
    """
    chains = []
    for way, hook in _WAYS:
        if direction in ("both", way):
            rules = [PacketRule(counter=f"{way}_dropped"), PacketRule("drop")]
            if how == "reject":
                # The resets that reject sends must get through: they pass these chains too.
                rules = [PacketRule("accept", resets=True), rules[0], PacketRule("reset", tcp=True), rules[1]]
            chains.append(Chain(way, hook, tuple(addresses), tuple(rules)))
    return chains


def dropping(addresses: Sequence[str], direction: Direction, percent: float) -> list[Chain]:
    """Chains that drop a random share of the packets, with counters for all and for dropped ones."""
    share = round(percent / 100 * SHARE_OF)
    chains = []
    for way, hook in _WAYS:
        if direction in ("both", way):
            rules = (
                PacketRule(counter=f"{way}_seen"),
                PacketRule("drop", counter=f"{way}_dropped", share=share),
            )
            chains.append(Chain(way, hook, tuple(addresses), rules))
    return chains
