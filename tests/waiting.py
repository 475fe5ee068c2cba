"""Waits for conditions, with a bound."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from confluent_kafka import KafkaException

T = TypeVar("T")

# For whatever must end: only what hangs takes longer, also where all tests share two cores.
PATIENCE_S = 900.0
_POLL_S, _MOST_POLL_S = 0.02, 0.5


def eventually(condition: Callable[[], bool], bound_s: float = PATIENCE_S) -> bool:
    """Whether the condition came true within the bound.

    A condition that takes long, as a look at all processes does, is looked at less often: what is waited for
    needs the CPU.
    """
    limit = time.monotonic() + bound_s
    while True:
        began = time.monotonic()
        if condition():
            return True
        now = time.monotonic()
        if now > limit:
            return False
        time.sleep(min(max(_POLL_S, 5 * (now - began)), _MOST_POLL_S))


def wait_for(condition: Callable[[], bool], what: str, bound_s: float = PATIENCE_S) -> None:
    """Waits until the condition is true; fails, naming what was waited for, when the bound passes first."""
    assert eventually(condition, bound_s), f"{what} did not happen within {bound_s} s"


def answered(ask: Callable[[], T], what: str, bound_s: float = PATIENCE_S) -> T:
    """What a cluster answers, asked until it does: the coordinator of a group is not there at once."""
    limit = time.monotonic() + bound_s
    while True:
        try:
            return ask()
        except KafkaException as error:
            assert time.monotonic() < limit, f"{what}: {error}"
            time.sleep(0.1)


def blocked(pid: int, doing: str) -> bool:
    """Whether the main thread of a process waits for a pipe: to `read` from it or to `write` to it."""
    try:
        return Path(f"/proc/{pid}/wchan").read_text() in (f"pipe_{doing}", f"anon_pipe_{doing}")
    except OSError:
        return False  # it has ended
