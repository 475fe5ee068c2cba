"""What network faults have in common: who is at the other end of a connection, and packet filter rules in a
node's namespace, one table per step, so that steps do not interfere.

Faults define the chains; this module adds, counts and removes them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from kaput.cluster.network.interface import SHARE_OF, Chain, Hook, PacketRule
from kaput.cluster.network.packet_filter import KernelFilter
from kaput.cluster.node import Node
from kaput.faults.fault import Scene
from kaput.scenario.fault_kinds import Direction, How

CLIENTS = 0  # nodes are numbered from 1


def everybody(scene: Scene) -> set[int]:
    """All parties."""
    return {CLIENTS, *scene.nodes}


def named(words: Sequence[str], scene: Scene) -> set[int]:
    """The parties that the words of `from` name; may include the target."""
    parties: set[int] = set()
    for word in words:
        match word.partition(" "):
            case ["broker", _, number]:
                parties.add(int(number))
            case ["clients", _, _]:
                parties.add(CLIENTS)
            case ["everybody", _, _]:
                parties |= everybody(scene)
            case ["all-nodes", _, _]:
                parties |= set(scene.nodes)
            case ["brokers", _, _]:
                parties |= {node.id for node in scene.nodes.values() if _is_broker(node)}
            case ["controllers" | "zookeeper", _, _]:  # the nodes that keep the metadata
                parties |= {
                    node.id for node in scene.nodes.values() if node.role in ("controller", "zookeeper")
                }
            case ["mirror", _, _]:
                parties |= {node.id for node in scene.nodes.values() if node.title == word}
            case _:
                parties |= scene.clusters.get(word.removeprefix("cluster "), frozenset())
    return parties


def across(node: int, words: Sequence[str], scene: Scene) -> set[int]:
    """The named parties, without the node itself and the rest of a cluster that is hit as a whole."""
    return named(words, scene) - {node} - scene.whole_cluster


def nodes_to_block(nodes: Sequence[Node], scene: Scene) -> list[int]:
    """The ids whose packets are blocked: the targets, or a whole cluster including its mirrors."""
    return sorted(scene.whole_cluster) if scene.whole_cluster else [node.id for node in nodes]


def listens(party: int, scene: Scene) -> bool:
    """Whether others connect to it: true of cluster nodes, not of clients or mirrors."""
    return party != CLIENTS and scene.nodes[party].role != "mirror"


def _is_broker(node: Node) -> bool:
    return node.role in ("broker", "combined")


def addresses(parties: Iterable[int], scene: Scene) -> list[str]:
    """The parties' addresses, ascending by party."""
    network = scene.network
    return [network.clients if p == CLIENTS else network.host(p) for p in sorted(parties)]


def title(parties: Collection[int], scene: Scene) -> str:
    """`broker 2, broker 3, the clients`, for proofs."""
    names = [scene.nodes[p].title for p in sorted(parties) if p != CLIENTS]
    return ", ".join([*names, *(["the clients"] if CLIENTS in parties else [])])


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
    def _filter(self) -> KernelFilter:
        return self.scene.network.filter(self.node)


def blocking(addresses: Sequence[str], direction: Direction, how: How) -> list[Chain]:
    """Chains that block these addresses both ways; counters: `in_dropped`, `out_dropped`."""
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
