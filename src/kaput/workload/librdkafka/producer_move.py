"""How a producer moves to another cluster: its messages in flight end there, the next one is sent here.

What has no outcome after a while is purged, and `unknown` (with a store: kept). So each message was sent to
one cluster at last, and its row says which.
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
    """A producer's client, which can be ended and opened elsewhere."""

    @property
    def spec(self) -> ProducerSpec: ...

    @property
    def idle(self) -> bool:
        """Whether it waits for no outcome, or was told to end."""

    @property
    def ending(self) -> bool:
        """Whether it was told to end."""

    @property
    def next_seq(self) -> int:
        """The number of its next message."""

    def serve(self, timeout_s: float) -> None: ...

    def end_client(self) -> int:
        """Gives up what has no outcome, and closes the client; how many messages that were."""

    def begin_client(self, move: Move) -> None:
        """Opens a client there; what is sent from now on is of that cluster."""

    def connect(self, timeout_s: float) -> None:
        """Raises KafkaException, NotAuthorizedError."""


class ProducerMove:
    """Does what one producer is told; `told` gets it."""

    def __init__(self, sender: MovableSender) -> None:
        self._sender, self.told = sender, Instructions()
        self.held = False

    def follow(self, *, to_send: bool = True) -> None:
        """Does what it was told; returns when it may send again, or was told to end. `to_send`: whether it
        has anything left to send; otherwise nothing is waited for.
        """
        sender = self._sender
        while not sender.ending and (self.told.waiting or (self.held and to_send)):
            match self.told.next(_TICK_S):
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
            error = str(failure)  # it sends all the same: the cluster may come back
        self.held = False
        notify(
            "moved", producer=sender.spec.producer, cluster=move.to.cluster, at_ns=time.time_ns(),
            next_seq=sender.next_seq, error=error,
        )  # fmt: skip
