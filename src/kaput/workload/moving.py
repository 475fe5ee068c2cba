"""Moving a client from one cluster to another, as its process is told: lines on stdin, in two steps.

`hold`: it stops using its cluster, and reports `held`. `move`: it begins on another one (without a `hold`
before, it stops first), and reports `moved`. Between the two, others can change what it will find there.
Not here: who tells it (supervision/moves.py), and what each client does (librdkafka/producer_move.py,
librdkafka/member_move.py, command/).
"""

from __future__ import annotations

import queue
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from kaput.workload.client_spec import MemberSpec, ProducerSpec

S = TypeVar("S", bound=ProducerSpec | MemberSpec)
_MOVED_AT_ONCE_SETTLE_S = 5.0  # of a client that is moved without a hold; steps of a plan always have one


@dataclass(frozen=True)
class Destination:
    """A cluster that clients use. `access`: the file with their credentials there (see client_settings)."""

    cluster: str
    bootstrap_servers: str
    access: str | None = None

    def applied_to(self, spec: S) -> S:
        """What a client does there."""
        config = {**spec.config, "bootstrap.servers": self.bootstrap_servers}
        return replace(spec, config=config, access=self.access, cluster=self.cluster)


@dataclass(frozen=True)
class Hold:
    """Stop using the cluster. `settle_s`: for outcomes and commits that are out; `commit`: whether a member
    commits before it leaves.
    """

    settle_s: float = _MOVED_AT_ONCE_SETTLE_S
    commit: bool = True


@dataclass(frozen=True)
class Move:
    """Begin at that place."""

    to: Destination


class Instructions:
    """What one client was told and has not done yet: from the thread that reads, to the one that works.

    `waiting` is true while there is something: a look that costs nothing.
    """

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Hold | Move] = queue.SimpleQueue()
        self.waiting = False

    def take(self, message: Mapping[str, Any]) -> bool:
        """Notes a line of stdin; whether it was one of these."""
        match message.get("kind"):
            case "hold":
                self._queue.put(Hold(message["settle_ms"] / 1000, message["commit"]))
            case "move":
                to = Destination(message["cluster"], message["bootstrap_servers"], message.get("access"))
                self._queue.put(Move(to))
            case _:
                return False
        self.waiting = True
        return True

    def next(self, timeout_s: float) -> Hold | Move | None:
        """The next one; None if none came in time."""
        try:
            told = self._queue.get(timeout=timeout_s) if timeout_s else self._queue.get_nowait()
        except queue.Empty:
            return None
        self.waiting = not self._queue.empty()
        return told
