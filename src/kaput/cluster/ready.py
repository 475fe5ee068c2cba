"""Waits until a cluster is ready: every broker answers, and sees all brokers as alive. Its place: lab.py."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from kaput.cluster.admin.requests import metadata
from kaput.cluster.node import Node
from kaput.cluster.wire import Endpoint, Unanswered, ask
from kaput.errors import BrokerError

_POLL_S = 0.05
_ANSWER_TIMEOUT_S = 1.0


def wait(
    nodes: Mapping[int, Node], endpoints: Callable[[], Mapping[int, Endpoint]], timeout_s: float
) -> None:
    """Waits until every broker (at its endpoint) is ready; a cluster may grow meanwhile.

    Raises BrokerError when time runs out, and at once when a node does not run.
    """
    limit = time.monotonic() + timeout_s
    waiting = set(endpoints())
    while waiting:
        for node in list(nodes.values()):
            if not node.running:
                raise BrokerError(node.why_not_running())
        now = endpoints()
        waiting = {broker for broker in waiting if broker in now and not _sees_all_brokers(broker, now)}
        if waiting and time.monotonic() > limit:
            raise _not_ready_error(nodes[min(waiting)], waiting, timeout_s)
        time.sleep(_POLL_S if waiting else 0)


def _sees_all_brokers(broker: int, endpoints: Mapping[int, Endpoint]) -> bool:
    try:
        answer = ask(endpoints[broker], metadata(), _ANSWER_TIMEOUT_S)
    except Unanswered:
        return False
    return {alive.node_id for alive in answer.brokers} == set(endpoints)


def _not_ready_error(node: Node, waiting: set[int], timeout_s: float) -> BrokerError:
    names = ", ".join(str(broker) for broker in sorted(waiting))
    return BrokerError(
        f"not ready after {timeout_s:.0f} s: broker {names}; the log of {node.title} ends:\n{node.log_tail()}"
    )
