"""How a producer moves to another cluster: messages in flight finish there, the next one is sent here.

Messages without an outcome after a while are purged, and `unknown` (with a store: kept). So each message's
last send was to one cluster, which its row names.
"""

from __future__ import annotations

import time
from typing import Protocol

from confluent_kafka import KafkaException

from kaput.workload.client_spec import ProducerSpec, notify
from kaput.workload.librdkafka.authorization import NotAuthorizedError
from kaput.workload.moving import Hold, Instructions, Move

_TICK_S = 0.02
_CONNECT_S = 10.0


class MovableSender(Protocol):
    """A producer whose client can be closed, and opened on another cluster."""

    @property
    def spec(self) -> ProducerSpec: ...

    @property
    def idle(self) -> bool:
        """Whether no outcome is pending, or it is stopping."""

    @property
    def ending(self) -> bool:
        """Whether it is stopping."""

    @property
    def next_seq(self) -> int:
        """The number of its next message."""

    def serve(self, timeout_s: float) -> None: ...

    def end_client(self) -> int:
        """Gives up messages without an outcome, and closes the client; returns how many."""

    def begin_client(self, move: Move) -> None:
        """Opens a client there, which messages go to from now on."""

    def connect(self, timeout_s: float) -> None:
        """Raises KafkaException, NotAuthorizedError."""


class ProducerMove:
    """Carries out one producer's instructions, which `instructions` receives."""

    def __init__(self, sender: MovableSender) -> None:
        self._sender, self.instructions = sender, Instructions()
        self.held = False

    def follow(self, *, to_send: bool = True) -> None:
        """Carries out pending instructions; returns when it may send again, or is stopping. `to_send`:
        whether it has anything left to send; if not, it does not wait.
        """
        sender = self._sender
        while not sender.ending and (self.instructions.waiting or (self.held and to_send)):
            match self.instructions.next(_TICK_S):
                case Hold() as hold:
                    self._hold(hold)
                case Move() as move if to_send:
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
            next_seq=sender.next_seq, given_up=given_up,
        )  # fmt: skip

    def _move(self, move: Move) -> None:
        sender, error = self._sender, None
        sender.begin_client(move)
        try:
            sender.connect(_CONNECT_S)
        except (KafkaException, NotAuthorizedError) as failure:
            error = str(failure)  # it sends anyway: the cluster may come back
        self.held = False
        notify(
            "moved", producer=sender.spec.producer, cluster=move.to.cluster, at_ns=time.time_ns(),
            next_seq=sender.next_seq, error=error,
        )  # fmt: skip
