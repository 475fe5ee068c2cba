"""One of several clusters as faults see it: its nodes, its brokers, and whom to ask about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kaput.cluster.admin import Admin
from kaput.cluster.node import Node


@dataclass(frozen=True)
class ClusterPart:
    """`mirrors`: the processes of mirrors that run beside its nodes, as those to it do."""

    nodes: Mapping[int, Node]
    brokers: Sequence[int]
    admin: Admin
    topics: Sequence[str]
    mirrors: Sequence[int] = ()

    @property
    def inside(self) -> frozenset[int]:
        """Whoever is in it."""
        return frozenset([*self.nodes, *self.mirrors])
