"""Checks protocol faults against the cluster that they hit. Called by steps.py."""

from __future__ import annotations

from kaput.scenario.block import Found
from kaput.scenario.cluster import Cluster
from kaput.scenario.steps import FaultStep

_PARTIES = ("clients", "brokers", "all-nodes", "everybody")  # can be distinguished by the listener


def check_protocol(step: FaultStep, cluster: Cluster) -> Found:
    """Mistakes: protocol faults need proxies; without namespaces all nodes share one address."""
    if cluster.proxies == "none":
        yield ("fault",), f"{step.fault} needs proxies from the start of the cluster; run it in a scenario"
    if step.target == "controller" and step.from_ == ["clients"]:
        yield ("from",), "clients send no requests to controllers; write from: brokers"
    for word in step.from_ or ():
        if word not in _PARTIES and cluster.network == "loopback":
            yield ("from",), f"on loopback all nodes have one address; write {', '.join(_PARTIES)}"
