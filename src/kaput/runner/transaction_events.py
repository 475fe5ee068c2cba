"""Transactions whose outcome is decided but whose markers are not written yet, as events during the run.

The coordinator logs each state of a transaction in __transaction_state. A transaction that passes through
PrepareCommit between two polls is not reported: its markers were not pending for long.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from kaput.cluster.followed_log import FollowedLog
from kaput.cluster.record_batches import read_records
from kaput.errors import UnknownFormat
from kaput.faults.event_triggers import Occurrence
from kaput.scenario.events import MARKERS_PENDING
from kaput.scenario.transactions import TRANSACTIONS, partition_of

_MS = 1_000_000
# TransactionLogValue, of any version: version i16 | producer id i64 | epoch i16 | timeout i32 | state i8
_VALUE = struct.Struct(">hqhib")
_PENDING = {2: "PrepareCommit", 3: "PrepareAbort"}
_KEY_HEAD_BYTES = 4  # version i16 | length of the transactional id i16


def _state(value: bytes) -> int:
    """The number of the transaction's state. Raises UnknownFormat."""
    try:
        state: int = _VALUE.unpack_from(value)[-1]
    except struct.error:
        raise UnknownFormat(f"{TRANSACTIONS} has a value of {len(value)} bytes") from None
    return state


class TransactionEvents:
    """Reads the coordinators' logs in `folders`; `ids`: names by transactional id."""

    events = frozenset({MARKERS_PENDING})

    def __init__(self, folders: Callable[[], list[Path]], ids: Mapping[str, str]) -> None:
        self._folders, self._ids = folders, ids
        self._logs: list[FollowedLog] = []

    def take(self) -> list[Occurrence]:
        """New occurrences. Raises OSError, ValueError, UnknownFormat."""
        if not self._logs:
            self._open()
        noticed, last = time.time_ns(), dict[str, Occurrence | None]()
        for log in self._logs:
            for batch in log.take():
                for record in read_records(batch.data):
                    name = self._ids.get((record.key or b"")[_KEY_HEAD_BYTES:].decode(errors="replace"))
                    if name is None or record.value is None:
                        continue
                    last[name] = None
                    if state := _PENDING.get(_state(record.value)):
                        at_ns = record.timestamp_ms * _MS
                        last[name] = Occurrence(MARKERS_PENDING, (name,), state, at_ns, noticed)
        return [occurrence for occurrence in last.values() if occurrence]

    def close(self) -> None:
        """Closes the files."""
        for log in self._logs:
            log.close()

    def _open(self) -> None:
        """Opens the partitions that hold the producers' transactions, once they exist."""
        replicas: dict[int, list[Path]] = {}
        for folder in self._folders():
            for path in folder.glob(f"{TRANSACTIONS}-*"):
                number = path.name.rpartition("-")[2]
                if number.isdigit():
                    replicas.setdefault(int(number), []).append(path)
        wanted = {partition_of(each, len(replicas)) for each in self._ids} if replicas else set()
        self._logs = [FollowedLog(replicas[number], enough=1) for number in sorted(wanted)]
