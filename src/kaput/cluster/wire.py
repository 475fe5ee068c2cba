"""One question to one node: a request of Kafka's protocol over a connection of its own, with a deadline.

A client library chooses whom it asks and for how long it waits; in a cluster with paused and cut-off brokers
that must be ours to choose. The bytes are kafka-python's, the socket is ours. Its place: admin.py, lab.py.
"""

from __future__ import annotations

import contextlib
import socket
import time
from typing import Any

from kaput.cluster.protocol import KafkaError, KafkaProtocol, for_code
from kaput.errors import LabError

Endpoint = tuple[str, int]


class Unanswered(LabError):
    """A node did not answer in time, or not at all."""


def ask(endpoint: Endpoint, request: Any, timeout_s: float, connection: socket.socket | None = None) -> Any:
    """The node's response to a kafka-python request, over `connection` if one is given. Raises Unanswered."""
    limit = time.monotonic() + timeout_s
    protocol = KafkaProtocol(client_id="kaput")
    protocol.send_request(request)
    try:
        opened = connection or socket.create_connection(endpoint, timeout_s)
        with contextlib.closing(opened):
            opened.sendall(protocol.send_bytes())
            while (left_s := limit - time.monotonic()) > 0:
                opened.settimeout(left_s)
                data = opened.recv(1 << 16)
                if not data:
                    raise Unanswered(f"{endpoint[0]}:{endpoint[1]} hung up")
                for _, response in protocol.receive_bytes(data):
                    return response
    except (OSError, KafkaError) as error:
        raise Unanswered(f"{endpoint[0]}:{endpoint[1]}: {error}") from None
    raise Unanswered(f"{endpoint[0]}:{endpoint[1]} did not answer within {timeout_s} s")


def error_name(code: int) -> str:
    """Kafka's word for an error code, such as NOT_LEADER_OR_FOLLOWER."""
    return str(getattr(for_code(code), "message", code))
