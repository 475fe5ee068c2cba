"""A sampler: something that is looked at again and again in a thread of its own while a run records.

Its place: lag_sampler.py and leader_sampler.py say what is looked at.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from contextlib import suppress
from types import TracebackType
from typing import Self

SAMPLE_S = 1.0
SOURCE = "kaput"  # of the samples


class Sampler(ABC):
    """Looks every `every_s` seconds, from entering to leaving the block; `at_once`: first of all, too."""

    def __init__(self, name: str, every_s: float, *, at_once: bool = False) -> None:
        self._every_s, self._at_once = every_s, at_once
        self.stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)

    @abstractmethod
    def look(self) -> None:
        """Once; returns in bounded time, sooner once `stopping` is set. Raises nothing."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Nothing is looked at any more when it returns."""
        self.stopping.set()
        self._thread.join()  # every question has a bound

    def _work(self) -> None:
        # A full disk takes no samples; the writers of what is judged report it.
        with suppress(OSError):
            if self._at_once:
                self.look()
            while not self.stopping.wait(self._every_s):
                self.look()
