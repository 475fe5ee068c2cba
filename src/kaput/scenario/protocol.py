"""Protocol faults: checks within their step, and the proxies that they need.

Checks against the cluster: checks/protocol.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kaput.scenario.apis import API_KEYS, ERROR_APIS, ERROR_CODES
from kaput.scenario.block import Found
from kaput.scenario.nearest import hint

if TYPE_CHECKING:
    from kaput.scenario.cluster import Cluster
    from kaput.scenario.steps import FaultStep


def with_proxies(cluster: Cluster, steps: Sequence[FaultStep]) -> Cluster:
    """The cluster with the proxies that these steps need; at least one is a protocol fault."""
    asked = {word for step in steps if step.fault == "protocol" for word in step.from_ or ()}
    proxies = "everybody" if asked - {"clients"} or cluster.proxies == "everybody" else "clients"
    return cluster.model_copy(update={"proxies": proxies})


def protocol_mistakes(step: FaultStep) -> Found:
    """Mistakes between a step's own keys."""
    if step.api is None:
        yield ("fault",), "protocol is about one kind of request; write for example api: EndTxn"
    elif step.api not in API_KEYS:
        yield ("api",), f"{step.api!r} is not a request to nodes; {hint(step.api, API_KEYS)}"
    elif step.what == "error" and step.api not in ERROR_APIS:
        yield ("what",), f"{step.api} cannot be answered with an error; {', '.join(ERROR_APIS)} can"
    for key in ("delay", "error"):
        example = {"delay": "5s", "error": "NOT_COORDINATOR"}[key]
        if (step.what == key) != (getattr(step, key) is not None):
            missing = f"what: {key} needs it; write {key}: {example}"
            given = f"what: {step.what} takes no {key}"
            yield ((key,), given) if getattr(step, key) is not None else (("fault",), missing)
    if step.error is not None and step.error not in ERROR_CODES:
        yield ("error",), f"{step.error!r} is not a known error; {hint(step.error, ERROR_CODES)}"
    if step.nth is not None and step.share is not None:
        yield ("share",), "nth picks one request already; leave one of them out"
