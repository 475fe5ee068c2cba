"""Work in a thread that does not keep the program from ending. Not here: pools, and threads that repeat."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

_T = TypeVar("_T")


def in_background(work: Callable[[], _T], name: str) -> Future[_T]:
    """Starts `work` in a daemon thread; the future cannot be cancelled, and has its result or exception."""
    future: Future[_T] = Future()
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised again by result()
            future.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
