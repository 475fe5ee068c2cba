"""Moving a client from one cluster to another: the instructions on its process's stdin, in two steps.

`hold`: it stops using its cluster, and reports `held`. `move`: it starts on another one (without a preceding
`hold`, it stops first), and reports `moved`. In between, others can change what it will find there.

A producer's messages in flight finish where they were sent, the next one is sent there. Messages without an
outcome after a while are purged, and `unknown` (with a store: kept). So each message's last send was to one
cluster, which its row names. Not here: who sends the instructions (supervision/supervisor.py), and how
members move (librdkafka/member.py, command/member.py).
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from confluent_kafka import KafkaException

from kaput.workload.client_spec import MemberSpec, NotAuthorizedError, ProducerSpec, notify
from kaput.workload.counters import FIELDS

S = TypeVar("S", bound=ProducerSpec | MemberSpec)
_MOVED_AT_ONCE_SETTLE_S = 5.0  # for a client that is moved without a hold; plan steps always specify it


@dataclass(frozen=True)
class Destination:
    """A cluster that clients use. `access`: the file with their credentials there (see client_settings)."""

    cluster: str
    bootstrap_servers: str
    access: str | None = None

    def applied_to(self, spec: S) -> S:
        config = {**spec.config, "bootstrap.servers": self.bootstrap_servers}
        return replace(spec, config=config, access=self.access, cluster=self.cluster)


@dataclass(frozen=True)
class Hold:
    """Stop using the cluster: wait `settle_s` for what is pending; `commit`: before it leaves."""

    settle_s: float = _MOVED_AT_ONCE_SETTLE_S
    commit: bool = True


@dataclass(frozen=True)
class MoveTo:
    to: Destination


class Instructions:
    """One client's pending instructions: passed from the thread that reads stdin to the one that works.
    `waiting` is true while there are any: cheap to check.
    """

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Hold | MoveTo] = queue.SimpleQueue()
        self.waiting = False

    def take(self, message: Mapping[str, Any]) -> bool:
        """Adds the instruction in a line of stdin; returns whether it was one."""
        match message.get("kind"):
            case "hold":
                self._queue.put(Hold(message["settle_ms"] / 1000, message["commit"]))
            case "move":
                to = Destination(message["cluster"], message["bootstrap_servers"], message.get("access"))
                self._queue.put(MoveTo(to))
            case _:
                return False
        self.waiting = True
        return True

    def next(self, timeout_s: float) -> Hold | MoveTo | None:
        """The next instruction; None if none came in time."""
        try:
            instruction = self._queue.get(timeout=timeout_s) if timeout_s else self._queue.get_nowait()
        except queue.Empty:
            return None
        self.waiting = not self._queue.empty()
        return instruction

    def put_back(self, instruction: MoveTo) -> None:
        self._queue.put(instruction)
        self.waiting = True


_TICK_S = 0.02
_CONNECT_S = 10.0


class MovableSender(Protocol):
    """A producer whose client can be closed, and opened on another cluster."""

    @property
    def spec(self) -> ProducerSpec: ...

    @property
    def idle(self) -> bool:
        """Whether no outcome is pending, or it is stopping."""

    stopping: threading.Event
    counts: memoryview  # its live counters (counters.py); the first is the number of its next message

    def serve(self, timeout_s: float) -> None: ...

    def end_client(self) -> int:
        """Gives up messages without an outcome, and closes the client; returns how many."""

    def begin_client(self, move: MoveTo) -> None:
        """Opens a client there, which messages go to from now on."""

    def connect(self, timeout_s: float) -> None:
        """Raises KafkaException, NotAuthorizedError."""


class ProducerMove:
    """Carries out one producer's instructions, which `instructions` receives."""

    def __init__(self, sender: MovableSender) -> None:
        self._sender, self.instructions = sender, Instructions()
        self.held = False

    def follow(self, *, waits: bool = True, moves: bool = True) -> None:
        """Carries out pending instructions; returns when it may send again, or is stopping. `waits`: for the
        move, while it is held. `moves`: if not, a move is for later.
        """
        sender = self._sender
        while not sender.stopping.is_set() and (self.instructions.waiting or (self.held and waits)):
            match self.instructions.next(_TICK_S):
                case Hold() as hold:
                    self._hold(hold)
                case MoveTo() as move:
                    if not moves:
                        self.instructions.put_back(move)
                        return
                    if not self.held:
                        self._hold(Hold())
                    self._move(move)

    def _hold(self, hold: Hold) -> None:
        sender, limit = self._sender, time.monotonic() + hold.settle_s
        began_ns = time.time_ns()
        while not sender.idle and time.monotonic() < limit:
            sender.serve(_TICK_S)
        given_up = sender.end_client()
        self.held = True
        notify(
            "held", producer=sender.spec.producer, began_ns=began_ns, at_ns=time.time_ns(),
            next_seq=sender.counts[0], given_up=given_up,
        )  # fmt: skip

    def _move(self, move: MoveTo) -> None:
        sender, error = self._sender, None
        sender.begin_client(move)
        try:
            sender.connect(_CONNECT_S)
        except (KafkaException, NotAuthorizedError) as failure:
            error = str(failure)  # it sends anyway: the cluster may come back
        self.held = False
        notify(
            "moved", producer=sender.spec.producer, cluster=move.to.cluster, at_ns=time.time_ns(),
            next_seq=sender.counts[0], acked=sender.counts[FIELDS.index("acked")], error=error,
        )  # fmt: skip
