"""Parties on the other side of a link: the words of `from` become parties, and parties become addresses.

A party is a node, or all clients together. Not here: targets (targets.py), the faults themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from kaput.cluster.node import Node
from kaput.faults.fault import Scene

_KEEPERS = ("controller", "zookeeper")
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
            case ["controllers" | "zookeeper", _, _]:  # the nodes that keep the metadata
                found |= {
                    node.id for node in scene.nodes.values() if node.role in ("controller", "zookeeper")
                }
            case ["mirror", _, _]:
                found |= {node.id for node in scene.nodes.values() if node.title == word}
            case _:
                found |= scene.clusters.get(word.removeprefix("cluster "), frozenset())
    return found


def across(node: int, words: Sequence[str], scene: Scene) -> set[int]:
    """The parties that the words mean on the other side of the node, or of the whole cluster that is hit."""
    return named(words, scene) - {node} - scene.within


def hit(nodes: Sequence[Node], scene: Scene) -> list[int]:
    """Whose packets are stopped: the targets', and where they are a whole cluster those of mirrors in it."""
    return sorted(scene.within) if scene.within else [node.id for node in nodes]


def listens(party: int, scene: Scene) -> bool:
    """Whether others connect to it: to nodes of clusters, not to clients or mirrors."""
    return party != CLIENTS and scene.nodes[party].role != "mirror"


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
