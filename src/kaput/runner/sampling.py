"""The base of samplers, which take samples in their own thread while a run is recorded.

Subclasses decide what is sampled.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Self

SAMPLE_S = 1.0
SOURCE = "kaput"  # value of the column `source`


class Sampler(ABC):
    """Samples every `every_s` seconds inside its `with` block; `at_once`: also at its start."""

    def __init__(self, name: str, every_s: float, *, at_once: bool = False) -> None:
        self._every_s, self._at_once = every_s, at_once
        self.stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)

    @abstractmethod
    def look(self) -> None:
        """Takes one sample in bounded time, sooner once `stopping` is set. Must not raise."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stops sampling; waits for the current sample."""
        self.stopping.set()
        self._thread.join()  # every request has a timeout

    def _work(self) -> None:
        # Samples are lost on a full disk; the writers of other evidence report that.
        with suppress(OSError):
            if self._at_once:
                self.look()
            while not self.stopping.wait(self._every_s):
                self.look()
