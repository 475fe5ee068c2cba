"""Admin's requests to ZooKeeper nodes: who the controller is, and whether a node answers."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kaput.cluster.admin.broadcast import ANSWER_TIMEOUT_S, Broadcaster
from kaput.cluster.wire import Endpoint, Unanswered
from kaput.errors import LabError, UnknownFormat

_GET_DATA, _CLOSE = 4, -11
_NO_NODE = -101
_SESSION_MS = 5000
# protocol version, last zxid seen, session timeout, session id, password (its length, 16 bytes), read-only
_CONNECT = struct.pack(">iqiqi16s?", 0, 0, _SESSION_MS, 0, 16, b"", False)
_REPLY = struct.Struct(">iqi")  # xid, zxid, error
_STAT = struct.Struct(">qqqq")  # created and last changed: zxid, zxid, ms, ms


@dataclass(frozen=True)
class Znode:
    """A znode's JSON value, and when ZooKeeper last changed it."""

    value: Any
    changed_zxid: int
    changed_ms: int


def read_znode(endpoint: Endpoint, path: str, timeout_s: float) -> Znode | None:
    """The znode at `path`, None if it does not exist. Raises Unanswered."""
    limit = time.monotonic() + timeout_s
    name = path.encode()
    request = struct.pack(f">iii{len(name)}s?", 1, _GET_DATA, len(name), name, False)
    try:
        with contextlib.closing(socket.create_connection(endpoint.address, timeout_s)) as connection:
            _send(connection, _CONNECT)
            _receive(connection, limit)
            _send(connection, request)
            answer = _receive(connection, limit)
            _send(connection, struct.pack(">ii", 2, _CLOSE))
        return _parse(answer)
    except (OSError, ValueError, struct.error) as error:
        raise Unanswered(f"ZooKeeper at {endpoint.host}:{endpoint.port}: {error}") from None


def _parse(answer: bytes) -> Znode | None:
    _, _, error = _REPLY.unpack_from(answer)
    if error == _NO_NODE:
        return None
    if error:
        raise ValueError(f"error {error}")
    (length,) = struct.unpack_from(">i", answer, _REPLY.size)
    start = _REPLY.size + 4
    _, changed_zxid, _, changed_ms = _STAT.unpack_from(answer, start + length)
    return Znode(json.loads(answer[start : start + length]), changed_zxid, changed_ms)


def _send(connection: socket.socket, message: bytes) -> None:
    connection.sendall(struct.pack(">i", len(message)) + message)


def _receive(connection: socket.socket, limit: float) -> bytes:
    (length,) = struct.unpack(">i", _receive_bytes(connection, 4, limit))
    return _receive_bytes(connection, length, limit)


def _receive_bytes(connection: socket.socket, count: int, limit: float) -> bytes:
    received = b""
    while len(received) < count:
        left_s = limit - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("no answer in time")
        connection.settimeout(left_s)
        data = connection.recv(count - len(received))
        if not data:
            raise ConnectionError("connection closed")
        received += data
    return received


_CONTROLLER = "/controller"


class Ensemble:
    """Requests to the ZooKeeper nodes; falsy in KRaft mode, where there are none."""

    def __init__(self, endpoints: Mapping[int, Endpoint], broadcaster: Broadcaster) -> None:
        self._endpoints, self._broadcaster = endpoints, broadcaster

    def __bool__(self) -> bool:
        return bool(self._endpoints)

    def __contains__(self, node: int) -> bool:
        return node in self._endpoints

    def ids(self) -> list[int]:
        """Their node ids. Raises LabError in KRaft mode."""
        if not self._endpoints:
            raise LabError("there is no ZooKeeper in KRaft mode")
        return sorted(self._endpoints)

    def ask(self, node: int) -> None:
        """Raises Unanswered unless this node answers."""
        read_znode(self._endpoints[node], _CONTROLLER, ANSWER_TIMEOUT_S)

    def controller_id(self) -> int:
        """The broker that is registered as the controller. Raises LabError if there is none."""
        asked = [
            self._broadcaster.submit(read_znode, endpoint, _CONTROLLER, ANSWER_TIMEOUT_S)
            for endpoint in self._endpoints.values()
        ]
        answers = [future.result() for future in asked if future.exception() is None]
        # A node may lag behind the others: the latest write counts.
        newest = max((node for node in answers if node), key=lambda node: node.changed_zxid, default=None)
        if newest is None:
            raise LabError("ZooKeeper has no controller" if answers else "no ZooKeeper node answered")
        try:
            return int(newest.value["brokerid"])
        except (KeyError, TypeError, ValueError):
            raise UnknownFormat(f"ZooKeeper's {_CONTROLLER} has {newest.value}") from None
