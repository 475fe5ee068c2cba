"""Parties on the other side of a link: the words of `from` become parties, and parties become addresses.

A party is a node, or all clients together. Not here: targets (targets.py), the faults themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from kaput.cluster.node import Node
from kaput.faults.fault import Scene

CLIENTS = 0  # nodes are numbered from 1


def everybody(scene: Scene) -> set[int]:
    """All parties."""
    return {CLIENTS, *scene.nodes}


def named(words: Sequence[str], scene: Scene) -> set[int]:
    """The parties that the words of `from` mean; may include the target."""
    found: set[int] = set()
    for word in words:
        match word.partition(" "):
            case ["broker", _, number]:
                found.add(int(number))
            case ["clients", _, _]:
                found.add(CLIENTS)
            case ["everybody", _, _]:
                found |= everybody(scene)
            case ["all-nodes", _, _]:
                found |= set(scene.nodes)
            case ["brokers", _, _]:
                found |= {node.id for node in scene.nodes.values() if _is_broker(node)}
            case _:  # controllers, zookeeper: the nodes that keep the metadata
                found |= {node.id for node in scene.nodes.values() if not _is_broker(node)}
    return found


def _is_broker(node: Node) -> bool:
    return node.role in ("broker", "combined")


def addresses(parties: Iterable[int], scene: Scene) -> list[str]:
    """Their addresses, ascending by party."""
    network = scene.network
    return [network.clients if p == CLIENTS else network.host(p) for p in sorted(parties)]


def title(parties: Collection[int], scene: Scene) -> str:
    """`broker 2, broker 3, the clients`, for proofs."""
    names = [scene.nodes[p].title for p in sorted(parties) if p != CLIENTS]
    return ", ".join([*names, *(["the clients"] if CLIENTS in parties else [])])
