"""The state of a watch: ledger, counts, and how far everything was read, in one file that is replaced
atomically.

So a micro-batch counts once or not at all. Spark repeats micro-batches that it does not know to be done; the
state has the number of the last one that it includes.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from kaput.analysis.streaming.counts import WindowCounts
from kaput.analysis.streaming.ledger import Ledger
from kaput.errors import EvidenceError

_FORMAT = 2
T = TypeVar("T")


@dataclass(frozen=True)
class WatchState:
    """`batch`: the last micro-batch of Spark's that it has; `taken`: rows read of each stream of evidence;
    `corrupt` and `foreign`: records without an identity; `windows_bytes`: how long the file of closed windows
    is.
    """

    ledger: Ledger
    counts: WindowCounts = field(default_factory=WindowCounts)
    version: int = 0
    batch: int = -1
    taken: Mapping[str, int] = field(default_factory=dict)
    corrupt: int = 0
    foreign: int = 0
    windows_bytes: int = 0


class StateFile(Generic[T]):
    """The file in `directory` that holds a state of type `kind`."""

    def __init__(self, directory: Path, kind: type[T]) -> None:
        self._path, self._kind = directory / "ledger.state", kind

    def load(self) -> T | None:
        """The last kept state; None if there is none. Raises EvidenceError for an invalid file."""
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return None
        try:
            format_, state = pickle.loads(data)
        except (
            pickle.UnpicklingError,
            EOFError,
            AttributeError,
            ImportError,
            ValueError,
            TypeError,
        ) as error:
            raise EvidenceError(f"{self._path}: not the state of a watch ({error})") from None
        if format_ != _FORMAT or not isinstance(state, self._kind):
            raise EvidenceError(f"{self._path}: was written by another version of kaput; start a new watch")
        return state

    def keep(self, state: T) -> None:
        """Replaces the kept state. Raises OSError."""
        temporary = self._path.with_suffix(f".{os.getpid()}")
        temporary.write_bytes(pickle.dumps((_FORMAT, state), protocol=pickle.HIGHEST_PROTOCOL))
        temporary.replace(self._path)
