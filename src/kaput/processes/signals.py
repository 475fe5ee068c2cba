"""Signals: Ctrl-C, SIGTERM and SIGHUP become one exception, and wait where cleaning up must not be cut short.

cli wraps a verb in `interrupts`; code that cleans up is wrapped in `shielded`.
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
    """What has arrived, and how many shields are up. Only the main thread changes it."""

    shields = 0
    pending: str | None = None
    raised = False


def _handle(number: int, frame: FrameType | None) -> None:
    if _State.raised:
        return  # the first one is being dealt with
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
    """The first SIGINT, SIGTERM or SIGHUP raises Interrupted in the main thread, later ones do nothing.

    Does nothing outside the main thread, where Python delivers no signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # nohup has set SIGHUP to be ignored, and means it.
    wanted = [n for n in _SIGNALS if n != signal.SIGHUP or signal.getsignal(n) != signal.SIG_IGN]
    _State.pending, _State.raised = None, False
    before = {number: signal.signal(number, _handle) for number in wanted}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end_interrupted_calls() -> None:
    """A read or a wait that Ctrl-C interrupts ends again, so that Python looks at what has arrived.

    To be called after a library has put a handler of its own before Python's which has the kernel start them
    anew (SA_RESTART): Polars does, as soon as it is loaded.
    """
    signal.siginterrupt(signal.SIGINT, True)


@contextmanager
def shielded() -> Iterator[None]:
    """Holds back a signal until the block has ended: for cleaning up."""
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
