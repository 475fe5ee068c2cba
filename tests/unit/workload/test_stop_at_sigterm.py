"""How a client stops at SIGTERM."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from kaput.workload.client_spec import stop_at_sigterm
from waiting import PATIENCE_S


@pytest.fixture(autouse=True)
def _sigterm() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def test_client_stops_at_sigterm() -> None:
    """As its parent asks it to."""
    stopping = threading.Event()
    stop_at_sigterm(stopping.set)
    os.kill(os.getpid(), signal.SIGTERM)
    assert stopping.wait(PATIENCE_S)


def test_handler_waits_for_no_lock() -> None:
    """It runs within whatever the main thread does, perhaps while that holds the lock of the event that it
    waits for: one client in some thousand stops waited for itself, forever.
    """
    stopping = threading.Event()
    stop_at_sigterm(stopping.set)
    handler = signal.getsignal(signal.SIGTERM)
    assert callable(handler)
    with stopping._cond:  # type: ignore[attr-defined]
        handling = threading.Thread(target=handler, args=(signal.SIGTERM, None), daemon=True)
        handling.start()
        handling.join(PATIENCE_S)
        assert not handling.is_alive()
    assert stopping.wait(PATIENCE_S)
