"""Work in a thread that does not keep the program from ending."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

_T = TypeVar("_T")


def begun(work: Callable[[], _T], name: str) -> Future[_T]:
    """What `work` returns or raises, once it has."""
    future: Future[_T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - whoever asks for the result gets it
            future.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
