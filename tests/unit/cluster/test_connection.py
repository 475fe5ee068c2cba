"""A connection for many requests, against a server that answers in pieces."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from kaput.cluster.protocol import metadata
from kaput.cluster.wire import Connection, Endpoint, Unanswered, WrongProtocol

_TLS_ALERT = b"\x15\x03\x03\x00\x02\x02\x46"


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def answering(server: socket.socket, *pieces: bytes) -> threading.Thread:
    """Accepts a connection, and sends each piece after a request."""

    def serve() -> None:
        accepted, _ = server.accept()
        with accepted:
            for piece in pieces:
                accepted.recv(1000)
                accepted.sendall(piece[:8])
                # Another segment: the client reads what is there.
                threading.Event().wait(0.2)
                accepted.sendall(piece[8:])

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


def versions(correlation_id: int, error_code: int) -> bytes:
    """An answer to ApiVersions without any."""
    body = struct.pack(">ihi", correlation_id, error_code, 0)
    return struct.pack(">i", len(body)) + body


def test_tls_alert_bytes_within_a_response_are_data(server: socket.socket) -> None:
    """Only what a connection begins with can be one: here the second piece of each answer has its bytes."""
    thread = answering(server, versions(1, 0x1503), versions(2, 0x1503))
    with closing(Connection(Endpoint("127.0.0.1", server.getsockname()[1]), 30)) as connection:
        for _ in range(2):
            assert connection.ask(metadata.ApiVersionsRequest(version=0)).error_code == 0x1503
    thread.join()


def test_tls_alert_is_reported_as_wrong_protocol(server: socket.socket) -> None:
    """And not a broker that does not answer."""
    thread = answering(server, _TLS_ALERT)
    address = Endpoint("127.0.0.1", server.getsockname()[1])
    refused = pytest.raises(WrongProtocol, match="requires TLS")
    with closing(Connection(address, 30)) as connection, refused:
        connection.ask(metadata.ApiVersionsRequest(version=0))
    thread.join()


def test_closed_or_unreachable_server_is_unanswered(server: socket.socket) -> None:
    """Whether it never was there, or closes the connection."""
    address = Endpoint("127.0.0.1", server.getsockname()[1])
    thread = answering(server)
    with closing(Connection(address, 30)) as connection, pytest.raises(Unanswered):
        connection.ask(metadata.ApiVersionsRequest(version=0))
    thread.join()
    server.close()
    with pytest.raises(Unanswered):
        Connection(address, 30)
