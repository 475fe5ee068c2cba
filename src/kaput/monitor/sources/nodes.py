"""Kept connections to the nodes of a cluster, for requests in parallel with one time limit for all of them.

Two for each node: a broker answers the requests of a connection in order, and those that it passes on to the
controller wait for as long as there is none. Not here: what is asked (cluster_state.py and its siblings).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, TypeVar

from kaput.cluster.admin.existing_requests import api_versions
from kaput.cluster.wire import AccessRefused, Connection, Endpoint, Unanswered
from kaput.errors import LabError

ROUND_S = 1.0
_CLOSING_S = 0.2  # what a round may last longer: threads that were just late
_K = TypeVar("_K", bound=Hashable)
_T = TypeVar("_T")


class Unsupported(LabError):
    """The node's version of Kafka does not know this request."""


class Line:
    """One connection to a node, made when it is needed, and again after a failure."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.lock = threading.Lock()
        self.requests = 0
        self._connection: Connection | None = None
        self._versions: Mapping[int, tuple[int, int]] = {}

    def ask(self, request: Any, limit: float) -> Any:
        """The answer, by `limit` (of the monotonic clock). Raises Unanswered, Unsupported."""
        kept = self._connection is not None
        try:
            return self._ask(request, limit)
        except Unanswered as error:
            self.close()
            # A kept connection may have ended with a broker that is back by now.
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
            answer = self._sent(api_versions(), limit)
            self._versions = {key.api_key: (key.min_version, key.max_version) for key in answer.api_keys}
        lowest, highest = self._versions.get(request.API_KEY, (0, -1))
        if not lowest <= request.API_VERSION <= highest:
            where = f"{self.endpoint.host}:{self.endpoint.port}"
            raise Unsupported(f"{where} does not support {type(request).__name__} {request.API_VERSION}")
        return self._sent(request, limit)

    def _sent(self, request: Any, limit: float) -> Any:
        assert self._connection is not None
        self.requests += 1
        return self._connection.ask(request, _left(limit))

    def supports(self, number: int) -> bool:
        """Whether the node was seen to know this kind of request."""
        return number in self._versions

    def close(self) -> None:
        """Ends the connection; the next request makes another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


Ask = Callable[[Any], Any]  # a request to one node, and its answer


@dataclass(frozen=True)
class Job:
    """Requests to one node, one after the other. `forwarded`: the node passes them on to the controller, or
    is one itself: a failure says nothing about a broker.
    """

    endpoint: Endpoint
    work: Callable[[Ask], Any]
    forwarded: bool = False


class Nodes:
    """Connections to any number of nodes. `silent`: those that failed since `begin`, and why."""

    def __init__(self, round_s: float = ROUND_S) -> None:
        self._round_s = round_s
        self._lines: dict[tuple[Endpoint, bool], Line] = {}
        self._pool = ThreadPoolExecutor(max_workers=128, thread_name_prefix="monitor")
        self.silent: dict[Endpoint, LabError] = {}
        self._before = 0

    def begin(self) -> None:
        """A poll begins: nodes that failed in the last one are asked again."""
        self.silent, self._before = {}, self._requests()

    @property
    def requests(self) -> int:
        """How many were made since `begin`."""
        return self._requests() - self._before

    def run(self, jobs: Mapping[_K, Job]) -> dict[_K, Any]:
        """The results of jobs that end within a round; nodes that were silent in this poll are left out."""
        limit = time.monotonic() + self._round_s
        futures: dict[Future[Any], _K] = {
            self._pool.submit(self._do, job, limit): key
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

    def _failed(self, job: Job, error: LabError) -> None:
        # The broker may be well when it is the controller that does not answer.
        if not job.forwarded and isinstance(error, Unanswered):
            self.silent[job.endpoint] = error

    def _do(self, job: Job, limit: float) -> Any:
        line = self._line(job.endpoint, job.forwarded)
        # A thread may be held up by the resolution of a name, which has no time limit.
        if not line.lock.acquire(timeout=max(0.0, limit - time.monotonic())):
            raise Unanswered(f"{job.endpoint.host}:{job.endpoint.port} is still being asked")
        try:
            return job.work(lambda request: line.ask(request, limit))
        finally:
            line.lock.release()

    def supports(self, endpoint: Endpoint, number: int) -> bool:
        """Whether this node was seen to know this kind of request."""
        return any(self._line(endpoint, forwarded).supports(number) for forwarded in (False, True))

    def _line(self, endpoint: Endpoint, forwarded: bool) -> Line:
        return self._lines.setdefault((endpoint, forwarded), Line(endpoint))

    def forget_all_but(self, endpoints: set[Endpoint]) -> None:
        """Ends the connections to nodes that are no longer part of the cluster."""
        for key in [key for key in list(self._lines) if key[0] not in endpoints]:
            self._before -= self._lines[key].requests
            self._lines.pop(key).close()

    def close(self) -> None:
        """Ends all connections; does not wait for requests that will time out."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        for line in list(self._lines.values()):
            line.close()

    def _requests(self) -> int:
        return sum(line.requests for line in list(self._lines.values()))


def _left(limit: float) -> float:
    return max(0.001, limit - time.monotonic())
