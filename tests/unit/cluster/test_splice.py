"""Bytes go from socket to socket inside the kernel."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kaput.cluster.frames.connection_end import SUPPORTED, Splice

pytestmark = pytest.mark.skipif(not SUPPORTED, reason="splice(2) is Linux's")
SENT = bytes(range(256)) * 20_000


async def _played(sent: bytes, count: int, end: str = "") -> tuple[bytes, int, list[bool]]:
    """What arrives of `sent` if `count` bytes are to pass, how many are said to have, and how it ended."""
    loop = asyncio.get_running_loop()
    (sender, source), (target, reader) = socket.socketpair(), socket.socketpair()
    for each in (sender, source, target, reader):
        each.setblocking(False)
    passed: list[int] = []
    over: list[bool] = []
    done = asyncio.Event()

    def ended(whole: bool) -> None:
        over.append(whole)
        done.set()

    passage = Splice(source.fileno(), target.fileno(), passed.append, ended)
    passage.begin(count)
    if end == "reader":
        reader.close()
    sending = asyncio.create_task(loop.sock_sendall(sender, sent))
    found = b""
    if end == "sender":
        await sending
        sender.close()
    if end != "reader":
        while len(found) < min(count, len(sent)):
            found += await loop.sock_recv(reader, 1 << 20)
    await asyncio.wait_for(done.wait(), 60)
    sending.cancel()
    passage.close()
    passage.close()
    for each in (sender, source, target, reader):
        each.close()
    return found, sum(passed), over


def _run(played: Coroutine[Any, Any, tuple[bytes, int, list[bool]]]) -> tuple[bytes, int, list[bool]]:
    """In a thread of its own: the browser's tests leave an event loop in theirs."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, played).result()


def test_splice_passes_exactly_the_requested_bytes() -> None:
    """The sender's next ones stay where they are."""
    count = len(SENT) - 100_000
    assert _run(_played(SENT, count)) == (SENT[:count], count, [True])


def test_splice_passes_bytes_sent_before_the_sender_closes() -> None:
    """What came before has arrived."""
    assert _run(_played(SENT[:5000], 10_000, "sender")) == (SENT[:5000], 5000, [True])


def test_splice_reports_a_closed_reader() -> None:
    """What was on its way to it is lost, which is reported."""
    found, passed, over = _run(_played(SENT, len(SENT), "reader"))
    assert (found, passed, over) == (b"", 0, [False])
