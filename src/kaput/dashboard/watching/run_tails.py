"""Follows the tables of a run that is being recorded: all files of the wanted tables, including new ones.

reader.py makes snapshots from it, run_metrics.py metrics. evidence/tails.py follows one file.
Also the counts of a watch's streaming ledger, while it is running and at its end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, ValidationError

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


# As the job writes them (analysis/streaming/state_update.py).
DIRECTORY, FINAL, STATUS = "watch", "final.json", "status.json"
ANOMALIES = ("missing", "late", "duplicated", "reordered")


class _LedgerDocument(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")
    acked: int
    missing: int
    late: int
    duplicated: int
    reordered: int
    complete: bool = False


class LedgerFile:
    """The ledger files of one run folder; read again when they change."""

    def __init__(self, runs: Runs, name: str) -> None:
        self._runs, self._name = runs, name
        self._written: tuple[int | None, ...] = ()
        self._known: dict[str, Any] | None = None

    def look(self) -> dict[str, Any] | None:
        """The counts, and at the end (`final`) the verdict; None without a ledger."""
        written = tuple(self._runs.changed_ns(self._name, DIRECTORY, file) for file in (FINAL, STATUS))
        if written != self._written:
            self._written, self._known = written, self._read(final=written[0] is not None)
        return self._known

    def _read(self, final: bool) -> dict[str, Any] | None:
        try:
            text = self._runs.read(self._name, DIRECTORY, FINAL if final else STATUS)
            found = _LedgerDocument.model_validate_json(text)
        except (OSError, ValidationError):
            return None  # for example an audit, which has other counts
        counts = {name: getattr(found, name) for name in ANOMALIES}
        return {**counts, "final": _verdict(found, counts) if final else None}


def _verdict(found: _LedgerDocument, counts: dict[str, int]) -> dict[str, str]:
    kind = "violated" if found.missing else "held" if found.complete else "inconclusive"
    text = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    rest = "" if found.complete else " Not everything could be read."
    return {"kind": kind, "message": f"{found.acked:,} acknowledged: {text}.{rest}"}
