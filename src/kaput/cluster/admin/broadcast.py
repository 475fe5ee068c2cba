"""Sends a request to many nodes: to all at once, or one after the other, with retries until a deadline.

Its place: cluster_admin.py knows the requests and the meaning of the answers; wire.py asks one node once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

from kaput.cluster.wire import AccessRefused, Endpoint, Unanswered, ask, ask_first
from kaput.errors import LabError

ANSWER_TIMEOUT_S = 2.0  # for one node's answer
LATECOMERS_S = 0.2  # for the other nodes once one has answered
_T = TypeVar("_T")
_A = TypeVar("_A")


class Broadcaster:
    """Threads for requests to `nodes` nodes, and the time after which `retry` gives up."""

    def __init__(self, nodes: int, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        # Many more than nodes: a request to a paused node blocks its thread until it times out.
        self._pool = ThreadPoolExecutor(max_workers=8 * nodes, thread_name_prefix="admin")

    def close(self) -> None:
        """Stops the threads; does not wait for requests that will time out."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def submit(self, request: Callable[..., _A], *args: Any) -> Future[_A]:
        return self._pool.submit(request, *args)

    def ask_all(
        self, endpoints: Mapping[int, Endpoint], make: Callable[[], Any], latecomers_s: float = LATECOMERS_S
    ) -> dict[int, Any]:
        """The answers by node, of nodes that answer within `latecomers_s` of the first; may be empty. Raises
        AccessRefused if no node answers and one refuses access.
        """
        futures = {
            self._pool.submit(ask, endpoint, make(), ANSWER_TIMEOUT_S): node
            for node, endpoint in endpoints.items()
        }
        answers: dict[int, Any] = {}
        refused: AccessRefused | None = None
        pending: set[Future[Any]] = set(futures)
        limit = time.monotonic() + ANSWER_TIMEOUT_S + 1
        while pending and (left_s := limit - time.monotonic()) > 0:
            done, pending = wait(pending, left_s, return_when=FIRST_COMPLETED)
            for future in done:
                if future.exception() is None:
                    if not answers:
                        limit = min(limit, time.monotonic() + latecomers_s)
                    answers[futures[future]] = future.result()
                elif isinstance(why := future.exception(), AccessRefused):
                    refused = why
        if refused is not None and not answers:
            raise refused
        return answers

    def ask_any(
        self, endpoints: Mapping[int, Endpoint], make: Callable[[], Any], what: str, timeout_s: float
    ) -> tuple[Any, bool]:
        """The answer of the first node that gives one, and whether an earlier one was lost (see ask_first).
        Raises LabError if none does.
        """
        try:
            return ask_first(endpoints.values(), make, timeout_s)
        except AccessRefused:
            raise
        except Unanswered as error:
            raise LabError(f"{what}: no node answered ({error})") from None

    def retry(self, attempt: Callable[[], _T], what: str) -> _T:
        """Repeats `attempt` until it raises no LabError, or the timeout. Raises AccessRefused at once."""
        limit = time.monotonic() + self._timeout_s
        while True:
            try:
                return attempt()
            except AccessRefused as error:
                raise AccessRefused(f"{what}: refused: {error}") from None
            except LabError as error:
                if time.monotonic() >= limit:
                    raise LabError(f"waited {self._timeout_s:.0f} s for {what}: {error}") from None
            time.sleep(0.05)
