"""Runs an action on several nodes in parallel: a fault should hit all of its targets at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_T = TypeVar("_T")
_R = TypeVar("_R")
_THREADS_MAX = 16


def in_parallel(action: Callable[[_T], _R], these: Sequence[_T]) -> list[_R]:
    """The results of `action`, in the order of `these`. Raises its first exception after all have ended."""
    if not these:
        return []
    with ThreadPoolExecutor(max_workers=min(_THREADS_MAX, len(these))) as pool:
        # Not map: it would cancel the remaining calls after an exception.
        futures = [pool.submit(action, one) for one in these]
    return [future.result() for future in futures]
