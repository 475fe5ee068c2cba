"""One of several clusters as faults see it: its nodes, its brokers, and its admin client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kaput.cluster.admin import Admin
from kaput.cluster.node import Node


@dataclass(frozen=True)
class ClusterPart:
    """`mirrors`: ids of the mirror processes on its side of the network, those that write to it."""

    nodes: Mapping[int, Node]
    brokers: Sequence[int]
    admin: Admin
    topics: Sequence[str]
    mirrors: Sequence[int] = ()

    @property
    def inside(self) -> frozenset[int]:
        """The ids of its nodes and mirrors."""
        return frozenset([*self.nodes, *self.mirrors])
