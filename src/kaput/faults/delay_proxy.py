"""`python -m kaput.faults.delay_proxy`: forwards a node's TCP connections, and delays what the node sends.

Runs in the node's namespace; the packet filter redirects connections to it (delayed_links.py), and the kernel
knows their original destinations. The packet filter exempts the proxy's own connections by a mark.
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
_WAITING = 1024  # the most queued chunks per direction of a connection


@dataclass(frozen=True)
class DelaySettings:
    """From the command line: the node's address, delay and jitter in seconds, and the mark."""

    node: str
    delay_s: float
    jitter_s: float
    mark: int


async def serve(port: int, settings: DelaySettings) -> None:
    """Serves until the process ends."""

    async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _forward(reader, writer, settings)

    server = await asyncio.start_server(accepted, "0.0.0.0", port, limit=_CHUNK)
    async with server:
        await server.serve_forever()


async def _forward(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, settings: DelaySettings
) -> None:
    try:
        host, port = _original_destination(writer.get_extra_info("socket"))
        onward = await _connect(host, port, settings.mark)
    except OSError:
        writer.transport.abort()
        return
    far_reader, far_writer = onward
    # On a connection to the node, the node sends on the far side; on one from it, on the near side.
    late = host == settings.node
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_stream(reader, far_writer, None if late else settings))
            group.create_task(_stream(far_reader, writer, settings if late else None))
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


async def _stream(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, settings: DelaySettings | None
) -> None:
    """Forwards one direction until its end; in order, whatever the jitter."""
    if settings is None:
        while chunk := await reader.read(_CHUNK):
            writer.write(chunk)
            await writer.drain()
        writer.write_eof()
        return
    waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_WAITING)
    async with asyncio.TaskGroup() as group:
        group.create_task(_read(reader, waiting, settings))
        group.create_task(_write(waiting, writer))


async def _read(
    reader: asyncio.StreamReader, waiting: asyncio.Queue[tuple[float, bytes]], settings: DelaySettings
) -> None:
    now = asyncio.get_running_loop().time
    due = 0.0
    while True:
        chunk = await reader.read(_CHUNK)
        due = max(due, now() + settings.delay_s + random.uniform(-settings.jitter_s, settings.jitter_s))
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


def _original_destination(connection: socket.socket) -> tuple[str, int]:
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
    settings = DelaySettings(
        arguments.node, arguments.delay_ms / 1000, arguments.jitter_ms / 1000, arguments.mark
    )
    asyncio.run(serve(arguments.port, settings))


if __name__ == "__main__":
    main()
