"""A server that speaks Kafka's frames and nothing else: it keeps what it is asked, and answers in order."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
import time

END_TXN, HEARTBEAT, API_VERSIONS = 26, 12, 18


def request(api: int, correlation: int, client: str | None = "me", body: bytes = b"body") -> bytes:
    """A whole request, of version 3."""
    name = client.encode() if client is not None else b""
    head = api.to_bytes(2) + (3).to_bytes(2) + correlation.to_bytes(4)
    head += (len(name) if client is not None else -1).to_bytes(2, signed=True) + name
    return (len(head) + len(body)).to_bytes(4) + head + body


def answer(correlation: int, body: bytes = b"done") -> bytes:
    return (4 + len(body)).to_bytes(4) + correlation.to_bytes(4) + body


class FrameBroker:
    """Listens on a free port until it is closed. `asked`: requests, with the moments at which they came.

    While `hold` is cleared, nothing is answered. `answer_body`: that of every answer.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[float, bytes]] = []
        self.connections: list[socket.socket] = []
        self.hold = threading.Event()
        self.hold.set()
        self.answer_body = b"done"
        broker = self

        class Talk(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                broker.connections.append(self.request)
                with contextlib.suppress(OSError), self.request.makefile("rb") as incoming:
                    while size := incoming.read(4):
                        frame = incoming.read(int.from_bytes(size))
                        if len(frame) < int.from_bytes(size):
                            return
                        broker.asked.append((time.monotonic(), size + frame))
                        broker.hold.wait(10)
                        self.request.sendall(answer(int.from_bytes(frame[4:8]), broker.answer_body))

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Talk)
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}).start()

    def requests(self) -> list[bytes]:
        """What it was asked, in order."""
        return [frame for _, frame in self.asked]

    def let_go(self) -> None:
        for connection in self.connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Client:
    """A connection to a port."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), 5)

    @property
    def name(self) -> str:
        host, port = self._socket.getsockname()
        return f"{host}:{port}"

    def send(self, *frames: bytes) -> None:
        self._socket.sendall(b"".join(frames))

    def read(self, length: int, timeout_s: float = 5.0) -> bytes:
        """So many bytes, or fewer where the connection ends; TimeoutError if it is silent."""
        self._socket.settimeout(timeout_s)
        found = b""
        with contextlib.suppress(ConnectionError):
            while len(found) < length and (more := self._socket.recv(length - len(found))):
                found += more
        return found

    def silent(self, for_s: float = 0.3) -> bool:
        """Whether nothing comes, not even the end."""
        try:
            self.read(1, for_s)
        except TimeoutError:
            return True
        return False

    def close(self) -> None:
        self._socket.close()
