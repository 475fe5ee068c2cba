"""Adds the `kept` rows that killed producers could not write: what they left in their stores.

With `spool-first` that is everything they were sending.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from kaput.clients.keep.store import StoreError
from kaput.core import MS
from kaput.evidence.recorder import Recorder
from kaput.evidence.schemas import TABLES
from kaput.evidence.sealing import whole_batches
from kaput.stores.running import RunningStores
from kaput.workload.payload.identity import Codec

Kept = tuple[str, int, int]  # store, producer, seq


def record_missing_kept_rows(
    killed: Collection[int], folder: Path, stores: RunningStores, codec: Codec
) -> list[str]:
    """Writes the missing rows; returns sentences about stores that could not be read."""
    troubles: list[str] = []
    if not killed:
        return troubles
    known = {row for producer in killed for row in _recorded(folder, producer)}
    with Recorder(folder, "kept", "kaput") as rows:
        for name in stores.urls:
            try:
                for record in stores.records(name):
                    who = codec.decode(record.value).identity
                    if who and who.producer in killed and (name, who.producer, who.seq) not in known:
                        at_ns = record.kept_ms * MS
                        tried = (record.error, record.tries, record.in_doubt, at_ns)
                        rows.row(who.producer, who.seq, name, *tried)
            except StoreError as error:
                troubles.append(f"store {name} could not be read before its replay: {error}")
    return troubles


def _recorded(folder: Path, producer: int) -> Iterator[Kept]:
    """The rows a producer wrote; the last ones may be torn."""
    path = folder / "evidence" / "kept" / f"producer-{producer}.arrows"
    if path.exists():
        for batch in whole_batches(TABLES["kept"], path, torn=[]):
            for store, seq in zip(batch["store"].to_pylist(), batch["seq"].to_pylist(), strict=True):
                yield store, producer, seq
