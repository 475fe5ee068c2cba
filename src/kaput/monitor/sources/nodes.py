"""Persistent connections to the nodes of a cluster, for parallel requests with a common time limit.

Two per node: a broker answers the requests of a connection in order, and those that it forwards to the
controller hang while there is none. Not here: which requests (cluster_state.py and its siblings).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, TypeVar

from kaput.cluster.admin.requests import api_versions
from kaput.cluster.wire import AccessRefused, Connection, Endpoint, Unanswered
from kaput.errors import LabError

ROUND_S = 1.0
_CLOSING_S = 0.2  # grace for threads that are just late
_K = TypeVar("_K", bound=Hashable)


class Unsupported(LabError):
    """The node's version of Kafka does not support this request."""


class NodeConnection:
    """One connection to a node, opened when needed, and again after a failure."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.lock = threading.Lock()
        self.requests = 0
        self._connection: Connection | None = None
        self._versions: Mapping[int, tuple[int, int]] = {}

    def ask(self, request: Any, limit: float) -> Any:
        """The response, by `limit` (monotonic clock). Raises Unanswered, Unsupported."""
        kept = self._connection is not None
        try:
            return self._ask(request, limit)
        except Unanswered as error:
            self.close()
            # A persistent connection may be stale: its broker may have restarted.
            if not kept or isinstance(error, AccessRefused) or time.monotonic() >= limit:
                raise
        try:
            return self._ask(request, limit)
        except Unanswered:
            self.close()
            raise

    def _ask(self, request: Any, limit: float) -> Any:
        if self._connection is None:
            self._connection = Connection(self.endpoint, _left(limit))
            answer = self._send(api_versions(), limit)
            self._versions = {key.api_key: (key.min_version, key.max_version) for key in answer.api_keys}
        lowest, highest = self._versions.get(request.API_KEY, (0, -1))
        if not lowest <= request.API_VERSION <= highest:
            where = f"{self.endpoint.host}:{self.endpoint.port}"
            raise Unsupported(f"{where} does not support {type(request).__name__} {request.API_VERSION}")
        return self._send(request, limit)

    def _send(self, request: Any, limit: float) -> Any:
        assert self._connection is not None
        self.requests += 1
        return self._connection.ask(request, _left(limit))

    def supports(self, number: int) -> bool:
        """Whether the node is known to support this API key."""
        return number in self._versions

    def close(self) -> None:
        """Closes the connection; the next request opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


Ask = Callable[[Any], Any]  # a request to one node, and its answer


@dataclass(frozen=True)
class NodeJob:
    """Requests to one node, in sequence. `forwarded`: the node forwards them to the controller, or is one: a
    failure says nothing about a broker.
    """

    endpoint: Endpoint
    work: Callable[[Ask], Any]
    forwarded: bool = False


class Nodes:
    """Connections to any number of nodes. `silent`: those that failed since `begin`, and why."""

    def __init__(self, round_s: float = ROUND_S) -> None:
        self._round_s = round_s
        self._connections: dict[tuple[Endpoint, bool], NodeConnection] = {}
        self._pool = ThreadPoolExecutor(max_workers=128, thread_name_prefix="monitor")
        self.silent: dict[Endpoint, LabError] = {}
        self._before = 0

    def begin(self) -> None:
        """Starts a poll: nodes that failed in the last one are queried again."""
        self.silent, self._before = {}, self._requests()

    @property
    def requests(self) -> int:
        """The number of requests since `begin`."""
        return self._requests() - self._before

    def run(self, jobs: Mapping[_K, NodeJob]) -> dict[_K, Any]:
        """The results of jobs that end within a round; skips nodes that were silent in this poll."""
        limit = time.monotonic() + self._round_s
        futures: dict[Future[Any], _K] = {
            self._pool.submit(self._run_job, job, limit): key
            for key, job in jobs.items()
            if job.endpoint not in self.silent
        }
        done, late = wait(futures, self._round_s + _CLOSING_S)
        found: dict[_K, Any] = {}
        for future in done:
            if (error := future.exception()) is None:
                found[futures[future]] = future.result()
            elif isinstance(error, LabError):
                self._failed(jobs[futures[future]], error)
            else:
                raise error
        for future in late:
            future.cancel()
            where = jobs[futures[future]].endpoint
            self._failed(
                jobs[futures[future]], Unanswered(f"{where.host}:{where.port} did not answer in time")
            )
        return found

    def _failed(self, job: NodeJob, error: LabError) -> None:
        # With a forwarded request, it may be the controller that does not answer.
        if not job.forwarded and isinstance(error, Unanswered):
            self.silent[job.endpoint] = error

    def _run_job(self, job: NodeJob, limit: float) -> Any:
        connection = self._connection_to(job.endpoint, job.forwarded)
        # Another thread may hang in a DNS lookup, which has no timeout.
        if not connection.lock.acquire(timeout=max(0.0, limit - time.monotonic())):
            raise Unanswered(f"{job.endpoint.host}:{job.endpoint.port} is still being asked")
        try:
            return job.work(lambda request: connection.ask(request, limit))
        finally:
            connection.lock.release()

    def supports(self, endpoint: Endpoint, number: int) -> bool:
        """Whether this node is known to support this API key."""
        return any(self._connection_to(endpoint, forwarded).supports(number) for forwarded in (False, True))

    def _connection_to(self, endpoint: Endpoint, forwarded: bool) -> NodeConnection:
        return self._connections.setdefault((endpoint, forwarded), NodeConnection(endpoint))

    def forget_all_but(self, endpoints: set[Endpoint]) -> None:
        """Closes the connections to nodes that are no longer part of the cluster."""
        for key in [key for key in list(self._connections) if key[0] not in endpoints]:
            self._before -= self._connections[key].requests
            self._connections.pop(key).close()

    def close(self) -> None:
        """Closes all connections; does not wait for requests that will time out."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        for connection in list(self._connections.values()):
            connection.close()

    def _requests(self) -> int:
        return sum(connection.requests for connection in list(self._connections.values()))


def _left(limit: float) -> float:
    return max(0.001, limit - time.monotonic())
