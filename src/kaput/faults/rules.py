"""Rules of the packet filter in a node's own namespace: one table for each step, so that steps never meet.

Its place: network faults write the chains; here they are put, counted and taken away.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kaput.cluster.network.tools import tool
from kaput.faults.fault import Scene
from kaput.scenario.options import Direction, How

_COUNTER = re.compile(r"counter (\w+) \{\s*packets (\d+)")
_PREFIX = "kaput_"


@dataclass(frozen=True)
class Table:
    """The table of one step in the namespace of one node."""

    scene: Scene
    node: int

    @property
    def name(self) -> str:
        """`kaput_1_cut`"""
        return _PREFIX + re.sub(r"\W", "_", self.scene.step)

    def put(self, chains: Sequence[str]) -> None:
        """Makes the table, all of it at once; one of this name that is there already gives way."""
        body = "\n".join(chains)
        self._nft(f"{self._gone()}table ip {self.name} {{\n{body}\n}}\n")

    def remove(self) -> None:
        """Takes it away, whether it is there or not."""
        self._nft(self._gone())

    def counters(self) -> dict[str, int]:
        """Packets counted so far, by the counter's name. Raises LabError where there is no table."""
        text = self.scene.network.run(self.node, [tool("nft"), "list", "counters", "table", "ip", self.name])
        return {name: int(packets) for name, packets in _COUNTER.findall(text)}

    def exists(self) -> bool:
        """Whether it is in place."""
        return self.name in self._all()

    def alone(self) -> bool:
        """Whether no other step has rules in this namespace."""
        return not {name for name in self._all() - {self.name} if name.startswith(_PREFIX)}

    def _all(self) -> set[str]:
        text = self.scene.network.run(self.node, [tool("nft"), "list", "tables"])
        return {line.split()[-1] for line in text.splitlines() if line}

    def _gone(self) -> str:
        return f"table ip {self.name} {{}}\ndelete table ip {self.name}\n"

    def _nft(self, script: str) -> None:
        self.scene.network.run(self.node, [tool("nft"), "-f", "-"], script)


def severing(addresses: Sequence[str], direction: Direction, how: How) -> list[str]:
    """Chains that let nothing through from or to the addresses, with the counters `in` and `out`."""
    chains = [f"set peers {{ type ipv4_addr; elements = {{ {', '.join(addresses)} }} }}"]
    for hook, way, match in (("input", "in", "ip saddr"), ("output", "out", "ip daddr")):
        if direction in ("both", way):
            chains += [f"counter {way}_dropped {{ }}", _chain(hook, f"{match} @peers", way, how)]
    return chains


def losing(addresses: Sequence[str], direction: Direction, percent: float) -> list[str]:
    """Chains that drop a share of the packets, drawn at random, with counters of all and of the dropped."""
    chains = [f"set peers {{ type ipv4_addr; elements = {{ {', '.join(addresses)} }} }}"]
    for hook, way, match in (("input", "in", "ip saddr"), ("output", "out", "ip daddr")):
        if direction in ("both", way):
            chains += [
                f"counter {way}_seen {{ }}",
                f"counter {way}_dropped {{ }}",
                f"chain {way} {{ type filter hook {hook} priority 0;"
                f" {match} @peers counter name {way}_seen;"
                f" {match} @peers numgen random mod 10000 < {round(percent * 100)}"
                f" counter name {way}_dropped drop; }}",
            ]
    return chains


def _chain(hook: str, match: str, way: str, how: How) -> str:
    rules = [f"{match} counter name {way}_dropped", f"{match} drop"]
    if how == "reject":
        # What reject itself sends must get through: it passes these chains too.
        rules = [
            "tcp flags & rst == rst accept",
            rules[0],
            f"{match} meta l4proto tcp reject with tcp reset",
            rules[1],
        ]
    return f"chain {way} {{ type filter hook {hook} priority 0; {'; '.join(rules)}; }}"
