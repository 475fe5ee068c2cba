"""Signals: Ctrl-C, SIGTERM and SIGHUP become one exception, which is deferred during cleanup.

cli wraps a command in `interrupts`; cleanup code is wrapped in `shielded`.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from kaput.errors import Interrupted

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _State:
    """The pending signal, and how many shields are up. Only the main thread changes it."""

    shields = 0
    pending: str | None = None
    raised = False


def _handle(number: int, frame: FrameType | None) -> None:
    if _State.raised:
        return  # the first one is being handled
    name = signal.Signals(number).name
    if _State.shields:
        _State.pending = name
    else:
        _raise(name)


def _raise(name: str) -> None:
    _State.pending, _State.raised = None, True
    raise Interrupted(f"interrupted by {name}; everything it had started has been ended")


@contextmanager
def interrupts() -> Iterator[None]:
    """The first SIGINT, SIGTERM or SIGHUP raises Interrupted in the main thread, later ones do nothing. Does
    nothing outside the main thread, where Python delivers no signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # nohup ignores SIGHUP: keep that.
    wanted = [n for n in _SIGNALS if n != signal.SIGHUP or signal.getsignal(n) != signal.SIG_IGN]
    _State.pending, _State.raised = None, False
    before = {number: signal.signal(number, _handle) for number in wanted}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def check_interrupted() -> None:
    """Raises Interrupted in a thread whose main thread it was raised in: for work that takes long."""
    if _State.raised:
        raise Interrupted("the main thread was interrupted")


def end_interrupted_calls() -> None:
    """Makes Ctrl-C end a blocking read or wait, so that Python's handler runs. Call it after a library has
    installed a handler that makes the kernel restart such calls (SA_RESTART): Polars does when it is
    imported.
    """
    signal.siginterrupt(signal.SIGINT, True)


@contextmanager
def shielded() -> Iterator[None]:
    """Defers signals until the block has ended: for cleanup."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _State.shields += 1
    try:
        yield
    finally:
        _State.shields -= 1
        if not _State.shields and _State.pending is not None:
            _raise(_State.pending)
