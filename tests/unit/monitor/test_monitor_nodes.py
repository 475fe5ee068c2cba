"""Requests to nodes in parallel, with one time limit for all: silent nodes cost that limit, once a poll."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from kaput.cluster.admin import requests
from kaput.cluster.wire import Endpoint, Unanswered
from kaput.monitor.sources.nodes import NodeJob, Nodes

ROUND_S = 0.3


@pytest.fixture
def silent() -> Iterator[Endpoint]:
    """A node that takes connections and never answers, as one that is paused."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield Endpoint(*server.getsockname())


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    """Nodes with a short limit."""
    found = Nodes(ROUND_S)
    yield found
    found.close()


def metadata(ask: Any) -> Any:
    return ask(requests.metadata())


def test_unresponsive_nodes_share_one_timeout_per_poll(nodes: Nodes, silent: Endpoint) -> None:
    """And those that answer are heard; a node is not asked again in the same poll."""
    began = time.monotonic()
    well = NodeJob(Endpoint("127.0.0.1", 1), lambda ask: "well")
    others = {number: NodeJob(silent, metadata, forwarded=number == 1) for number in (0, 1)}
    assert nodes.run({**others, 2: well}) == {2: "well"}
    assert time.monotonic() - began < ROUND_S + 10
    assert set(nodes.silent) == {silent}
    again = list[str]()
    assert nodes.run({0: NodeJob(silent, lambda ask: again.append("asked"))}) == {} and again == []
    nodes.begin()
    assert nodes.silent == {}


def test_forwarded_request_timeout_does_not_mark_node_silent(nodes: Nodes, silent: Endpoint) -> None:
    assert nodes.run({0: NodeJob(silent, metadata, forwarded=True)}) == {}
    assert nodes.silent == {}


def test_connection_refused_is_kept_as_reason(nodes: Nodes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        gone = Endpoint(*server.getsockname())
    assert nodes.run({0: NodeJob(gone, metadata)}) == {}
    assert "refused" in str(nodes.silent[gone])


def test_blocked_thread_does_not_delay_other_nodes(nodes: Nodes, silent: Endpoint) -> None:
    """As by the resolution of a name, which has no time limit."""
    going_on = threading.Event()
    began = time.monotonic()
    assert nodes.run({0: NodeJob(silent, lambda ask: going_on.wait(60))}) == {}
    nodes.begin()
    assert nodes.run({0: NodeJob(silent, lambda ask: "not reached")}) == {}
    assert time.monotonic() - began < 30
    assert isinstance(nodes.silent[silent], Unanswered)
    going_on.set()


def test_unexpected_exception_is_propagated(nodes: Nodes, silent: Endpoint) -> None:
    with pytest.raises(ZeroDivisionError):
        nodes.run({0: NodeJob(silent, lambda ask: 1 // 0)})


def test_monitor_requests_can_be_encoded() -> None:
    for request in (
        requests.list_groups(states=True),
        requests.fetch_offsets_of(["a", "b"]),
        requests.describe_quorum(1),
        requests.describe_quorum(2),
        requests.reassignments(1.0),
        requests.log_dirs(),
        requests.min_isrs(["orders"]),
    ):
        assert request.encode()
