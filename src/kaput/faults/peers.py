"""Parties on the other side of a link: resolves the words of `from` to parties, and parties to addresses.

A party is a node, or all clients together. Not here: targets (resolving.py), the faults themselves.
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
