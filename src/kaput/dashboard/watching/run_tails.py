"""Follows the tables of a run that is being recorded: all files of the wanted tables, including new ones.

reader.py makes snapshots from it, run_metrics.py metrics. evidence/tails.py follows one file.
Also the counts of a watch's streaming ledger, while it is running and at its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import ValidationError

from kaput.dashboard.safe_files import Lenient, Runs
from kaput.evidence.attempts import SUFFIX
from kaput.evidence.schemas import whole
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
        for tail in self._tails.values():
            tail.close()
        self._tails.clear()


# As the job writes them (analysis/streaming/state_update.py).
DIRECTORY, FINAL, STATUS = "watch", "final.json", "status.json"
ANOMALIES = ("missing", "late", "duplicated", "reordered")


class _LedgerDocument(Lenient):
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
            document = _LedgerDocument.model_validate_json(text)
        except (OSError, ValidationError):
            return None  # for example an audit, which has other counts
        counts = {name: getattr(document, name) for name in ANOMALIES}
        return {**counts, "final": _verdict(document, counts) if final else None}


def _verdict(found: _LedgerDocument, counts: dict[str, int]) -> dict[str, str]:
    kind = "violated" if found.missing else "held" if found.complete else "inconclusive"
    text = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    rest = "" if found.complete else " Not everything could be read."
    return {"kind": kind, "message": f"{found.acked:,} acknowledged: {text}.{rest}"}


MOST_PLACES = 60  # partitions shown: those that changed last
_MOST_FAULTS = 200
NOT_YET = "injection not finished"  # the proof that the nemesis records before it injects
Row = Mapping[str, Any]


class CurrentState:
    """The latest rows of faults and samples. Rows must be added in the order in which they were written."""

    def __init__(self) -> None:
        self._faults: dict[str, Row] = {}
        self._places: dict[tuple[str, int], tuple[int, Row]] = {}
        self._lags: dict[str, dict[tuple[str, str], int]] = {}
        self.attempted = 0

    def fault(self, row: Row) -> None:
        """Adds a row of `faults`: the last row of each fault is the most complete."""
        self._faults[row["id"]] = row

    def sample(self, row: Row) -> None:
        """Adds a row of `samples`; unknown names are ignored."""
        if not whole(row["value"]):
            return
        labels = dict(row["labels"] or ())
        match row["name"]:
            case "lag":
                place = labels.get("topic", ""), labels.get("partition", "")
                self._lags.setdefault(labels.get("group", ""), {})[place] = int(row["value"])
            case "leader":
                key = labels.get("topic", ""), _number(labels.get("partition"))
                self._places[key] = row["at_ns"], {**labels, "leader": int(row["value"])}
            case "messages_attempted":
                self.attempted = int(row["value"])

    def faults(self, began_ns: int) -> list[dict[str, Any]]:
        """The faults as JSON, with times in seconds since `began_ns`."""
        return [_fault_document(row, began_ns) for row in list(self._faults.values())[-_MOST_FAULTS:]]

    def places(self) -> tuple[list[dict[str, Any]], int]:
        """Leader, epoch and ISR of partitions, by name; and how many partitions are left out."""
        recent = sorted(self._places.items(), key=lambda item: item[1][0], reverse=True)[:MOST_PLACES]
        shown = [_partition_document(topic, number, row) for (topic, number), (_, row) in sorted(recent)]
        return shown, len(self._places) - len(shown)

    def lags(self) -> dict[str, int]:
        """The lag of each group over all its partitions."""
        return {group: sum(found.values()) for group, found in self._lags.items()}


def _fault_document(row: Row, began_ns: int) -> dict[str, Any]:
    effective, healed = row["effective_ns"], row["healed_ns"]
    begin = effective if effective is not None else row["injected_ns"]
    return {
        "id": row["id"],
        "fault": row["fault"],
        "target": row["target"],
        "brokers": list(row["brokers"] or ()),
        "state": state_of(row),
        "from_s": round((begin - began_ns) / 1e9, 3),
        "to_s": None if healed is None else round((healed - began_ns) / 1e9, 3),
        "proof": row["proof"],
    }


def state_of(row: Row) -> str:
    """The state of a fault: healed, being injected, active, or without effect."""
    if row["healed_ns"] is not None:
        return "healed"
    if row["proof"] == NOT_YET:
        return "being injected"
    return "active" if row["bit"] or row["effective_ns"] is not None else "without effect"


def _partition_document(topic: str, number: int, row: Row) -> dict[str, Any]:
    isr = [_number(word) for word in str(row.get("isr", "")).split(",") if word]
    leader = row["leader"]
    return {
        "place": f"{topic}/{number}",
        "leader": leader if leader >= 0 else None,
        "epoch": _number(row.get("leader_epoch")),
        "isr": isr,
    }


def _number(word: str | None) -> int:
    try:
        return int(word or "")
    except ValueError:
        return -1


def rows_of(batches: Iterable[Any]) -> Iterator[Row]:
    """The rows of a small table."""
    for batch in batches:
        yield from batch.to_pylist()
