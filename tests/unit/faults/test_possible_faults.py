"""Which faults the control room offers for a cluster."""

from __future__ import annotations

import pytest

from fakes.steps import DISK_FAULTS, NETWORK_FAULTS
from kaput.faults.catalogue import descriptions, possible_on
from kaput.scenario.cluster import Cluster
from kaput.scenario.fault_kinds import KINDS, faults_on

ANYWHERE = {name for name in faults_on("nodes") if KINDS[name].needs is None} - {"noop", "command"}


@pytest.mark.parametrize(
    ("settings", "more"),
    [
        ({}, set()),
        ({"network": "namespaces"}, NETWORK_FAULTS),
        ({"network": "namespaces", "disk-mb": 100}, NETWORK_FAULTS | {"disk-full"}),
        ({"network": "namespaces", "disk-mb": 100, "disk-fs": "ext4"}, NETWORK_FAULTS | DISK_FAULTS),
        ({"proxies": "everybody"}, {"protocol"}),
        ({"faketime": True}, {"clock-skew"}),
        ({"memory-groups": True}, {"memory-pressure"}),
    ],
)
def test_only_possible_faults_are_offered(settings: dict[str, object], more: set[str]) -> None:
    found = possible_on(Cluster.model_validate(settings))
    assert {each.fault for each in found} == ANYWHERE | more


def test_each_fault_on_nodes_is_marked() -> None:
    """Those on members, topics and the cluster are not, although some have the same names."""
    marked = [each.fault for each in descriptions() if each.on_nodes]
    assert marked == [name for name in faults_on("nodes") if name != "command"]
