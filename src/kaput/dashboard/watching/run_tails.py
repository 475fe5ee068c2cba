"""Follows the tables of a run that is being recorded: all files of the wanted tables, including new ones.

reader.py makes snapshots from it, run_metrics.py metrics. evidence/tails.py follows one file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from kaput.dashboard.safe_files import Runs
from kaput.evidence.attempts import SUFFIX
from kaput.evidence.tails import AttemptsTail, StreamTail

ATTEMPTS = "attempts"  # in place of a table's name: messages that producers are about to send
_STREAM = ".arrows"
_MOST_FILES = 2_000  # a file for each writer process
Longs = np.ndarray[Any, np.dtype[np.int64]]


class RunTails:
    """The files of one run. `columns`: the wanted columns by table."""

    def __init__(self, runs: Runs, name: str, columns: Mapping[str, Sequence[str]]) -> None:
        self._runs, self._name, self._columns = runs, name, columns
        self._tails: dict[tuple[str, str], StreamTail | AttemptsTail] = {}

    @property
    def more(self) -> bool:
        """Whether the last `take` left rows unread."""
        return any(tail.more for tail in self._tails.values())

    def take(self) -> Iterator[tuple[str, Longs | Iterator[pa.RecordBatch]]]:
        """New data: (ATTEMPTS, times in ns), and (table, batches)."""
        for table in self._columns:
            for file in self._runs.files(self._name, "evidence", table):
                self._open(table, file)
        for (table, _), tail in list(self._tails.items()):
            yield (ATTEMPTS if isinstance(tail, AttemptsTail) else table), tail.take()

    def _open(self, table: str, file: str) -> None:
        attempts = table == "sends" and file.endswith(SUFFIX)
        if (table, file) in self._tails or not (attempts or file.endswith(_STREAM)):
            return
        if len(self._tails) >= _MOST_FILES:
            return
        try:
            descriptor = self._runs.open(self._name, "evidence", table, file)
        except OSError:  # sealed in the meantime
            return
        columns = self._columns[table]
        self._tails[table, file] = AttemptsTail(descriptor) if attempts else StreamTail(descriptor, columns)

    def close(self) -> None:
        """Closes all files."""
        for tail in self._tails.values():
            tail.close()
        self._tails.clear()
