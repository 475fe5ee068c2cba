"""Reads one znode from one ZooKeeper node, over a new connection, with a deadline.

As in wire.py, kaput decides which node to ask and how long to wait, because nodes may be paused or cut off; a
client library would try the next one. Its place: ensemble.py reads the controller.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import time
from dataclasses import dataclass
from typing import Any

from kaput.cluster.wire import Endpoint, Unanswered

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
    found = b""
    while len(found) < count:
        left_s = limit - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("no answer in time")
        connection.settimeout(left_s)
        data = connection.recv(count - len(found))
        if not data:
            raise ConnectionError("connection closed")
        found += data
    return found
