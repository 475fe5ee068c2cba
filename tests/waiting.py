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


def eventually(condition: Callable[[], bool], bound_s: float = PATIENCE_S) -> bool:
    """Whether the condition came true within the bound."""
    limit = time.monotonic() + bound_s
    while not condition():
        if time.monotonic() > limit:
            return False
        time.sleep(0.02)
    return True


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
