"""Moving a client from one cluster to another: the instructions on its process's stdin, in two steps.

`hold`: it stops using its cluster, and reports `held`. `move`: it starts on another one (without a preceding
`hold`, it stops first), and reports `moved`. In between, others can change what it will find there. Not here:
who sends the instructions (supervision/moves.py), and what each client does (librdkafka/producer_move.py,
librdkafka/member_move.py, command/).
"""

from __future__ import annotations

import queue
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from kaput.workload.client_spec import MemberSpec, ProducerSpec

S = TypeVar("S", bound=ProducerSpec | MemberSpec)
_MOVED_AT_ONCE_SETTLE_S = 5.0  # for a client that is moved without a hold; plan steps always specify it


@dataclass(frozen=True)
class Destination:
    """A cluster that clients use. `access`: the file with their credentials there (see client_settings)."""

    cluster: str
    bootstrap_servers: str
    access: str | None = None

    def applied_to(self, spec: S) -> S:
        """The spec of a client that has moved there."""
        config = {**spec.config, "bootstrap.servers": self.bootstrap_servers}
        return replace(spec, config=config, access=self.access, cluster=self.cluster)


@dataclass(frozen=True)
class Hold:
    """Stop using the cluster. `settle_s`: how long to wait for pending outcomes and commits; `commit`:
    whether a member commits before it leaves.
    """

    settle_s: float = _MOVED_AT_ONCE_SETTLE_S
    commit: bool = True


@dataclass(frozen=True)
class Move:
    """Start on that cluster."""

    to: Destination


class Instructions:
    """One client's pending instructions: passed from the thread that reads stdin to the one that works.

    `waiting` is true while there are any: cheap to check.
    """

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Hold | Move] = queue.SimpleQueue()
        self.waiting = False

    def take(self, message: Mapping[str, Any]) -> bool:
        """Adds the instruction in a line of stdin; returns whether it was one."""
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
        """The next instruction; None if none came in time."""
        try:
            instruction = self._queue.get(timeout=timeout_s) if timeout_s else self._queue.get_nowait()
        except queue.Empty:
            return None
        self.waiting = not self._queue.empty()
        return instruction
