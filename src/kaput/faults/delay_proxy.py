"""`python -m kaput.faults.delay_proxy`: forwards a node's TCP connections, and delays what the node sends.

It runs in the node's namespace; the packet filter redirects connections to it (delay.py), and the kernel
knows their original destinations. The packet filter recognizes its own connections by a mark.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import socket
import struct
from dataclasses import dataclass

_SO_ORIGINAL_DST = 80
_CHUNK = 1 << 16
_WAITING = 1024  # chunks that may wait in one direction of one connection


@dataclass(frozen=True)
class Manner:
    """The command line: delay and jitter in seconds, and the node's address."""

    node: str
    delay_s: float
    jitter_s: float
    mark: int


async def serve(port: int, manner: Manner) -> None:
    """Until the process ends."""

    async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _pass_on(reader, writer, manner)

    server = await asyncio.start_server(accepted, "0.0.0.0", port, limit=_CHUNK)
    async with server:
        await server.serve_forever()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, manner: Manner) -> None:
    try:
        host, port = _meant_for(writer.get_extra_info("socket"))
        onward = await _connect(host, port, manner.mark)
    except OSError:
        writer.transport.abort()
        return
    far_reader, far_writer = onward
    # A connection to the node: its answers come from the far side. One from it: from the near side.
    late = host == manner.node
    try:
        async with asyncio.TaskGroup() as both:
            both.create_task(_stream(reader, far_writer, None if late else manner))
            both.create_task(_stream(far_reader, writer, manner if late else None))
    except* OSError:
        pass
    finally:
        for side in (writer, far_writer):
            side.transport.abort()


async def _connect(host: str, port: int, mark: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    connection.setblocking(False)
    try:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, mark)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(connection, (host, port))
        return await asyncio.open_connection(sock=connection, limit=_CHUNK)
    except OSError:
        connection.close()
        raise


async def _stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, manner: Manner | None) -> None:
    """Forwards one direction to its end; in order, whatever the jitter."""
    if manner is None:
        while chunk := await reader.read(_CHUNK):
            writer.write(chunk)
            await writer.drain()
        writer.write_eof()
        return
    waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_WAITING)
    async with asyncio.TaskGroup() as both:
        both.create_task(_read(reader, waiting, manner))
        both.create_task(_write(waiting, writer))


async def _read(
    reader: asyncio.StreamReader, waiting: asyncio.Queue[tuple[float, bytes]], manner: Manner
) -> None:
    now = asyncio.get_running_loop().time
    due = 0.0
    while True:
        chunk = await reader.read(_CHUNK)
        due = max(due, now() + manner.delay_s + random.uniform(-manner.jitter_s, manner.jitter_s))
        await waiting.put((due, chunk))
        if not chunk:
            return


async def _write(waiting: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter) -> None:
    now = asyncio.get_running_loop().time
    while True:
        due, chunk = await waiting.get()
        await asyncio.sleep(max(0.0, due - now()))
        if not chunk:
            writer.write_eof()
            return
        writer.write(chunk)
        await writer.drain()


def _meant_for(connection: socket.socket) -> tuple[str, int]:
    """The original destination of a connection. Raises OSError if it was not redirected."""
    answer = connection.getsockopt(socket.SOL_IP, _SO_ORIGINAL_DST, 16)
    port, address = struct.unpack_from("!2xH4s", answer)
    return socket.inet_ntoa(address), port


def main() -> None:
    """Reads the command line and serves."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--node", required=True)
    parser.add_argument("--delay-ms", type=float, required=True)
    parser.add_argument("--jitter-ms", type=float, required=True)
    parser.add_argument("--mark", type=int, required=True)
    arguments = parser.parse_args()
    manner = Manner(arguments.node, arguments.delay_ms / 1000, arguments.jitter_ms / 1000, arguments.mark)
    asyncio.run(serve(arguments.port, manner))


if __name__ == "__main__":
    main()
