"""What must agree between a fault in the protocol and the cluster that it hits. Called by steps.py."""

from __future__ import annotations

from kaput.scenario.block import Found
from kaput.scenario.cluster import Cluster
from kaput.scenario.steps import FaultStep

_PARTIES = ("clients", "brokers", "all-nodes", "everybody")


def check_protocol(step: FaultStep, cluster: Cluster) -> Found:
    """Proxies stand in front of brokers; without namespaces all brokers have one address."""
    if cluster.proxies == "none":
        yield ("fault",), f"{step.fault} needs proxies from the start of the brokers; run it in a scenario"
    if step.target == "controller" and cluster.controllers != "combined":
        yield ("target",), f"{step.fault} hits requests to brokers; write broker N, leader-of T/P, any or all"
    for word in step.from_ or ():
        if word in _PARTIES:
            continue
        if not word.startswith("broker "):
            yield ("from",), f"{word} asks brokers nothing; write {', '.join(_PARTIES)} or broker N"
        elif cluster.network == "loopback":
            yield (
                ("from",),
                f"on loopback {word} cannot be told from others; write brokers, or use namespaces",
            )
