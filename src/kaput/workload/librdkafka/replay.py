"""One replay of a store, in its own process: `python -m kaput.workload.librdkafka.replay SPEC.json`.

Sends what the store kept with `keep.replay`, as `kaput keep replay` does, and reports each batch when the
store has removed it, so that it can be killed at any moment.
"""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kaput.clients import keep
from kaput.clients.keep.store import records_of
from kaput.errors import KaputError
from kaput.workload.client_spec import ReplaySpec, client_settings, notify, run_client
from kaput.workload.librdkafka.client_setup import quiet_logger
from kaput.workload.payload import Codec


class ReportingStore:
    """Wraps a store: reports removed messages, which Kafka has by then."""

    def __init__(self, store: keep.MessageStore, run_id: uuid.UUID) -> None:
        self._store, self._codec = store, Codec(run_id)
        self._read: dict[str, keep.KeptMessage] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def read(self, *arguments: Any) -> list[keep.KeptMessage]:
        records = self._store.read(*arguments)
        self._read.update((record.id, record) for record in records)
        return records

    def remove(self, ids: Sequence[str], note: str | None = None) -> None:
        earlier = not all(id_ in self._read for id_ in ids)
        if earlier:  # read by an earlier replay that was killed
            self._read.update((record.id, record) for record in records_of(self._store))
        rows = [self._row(self._read.pop(id_)) for id_ in ids if id_ in self._read]
        self._store.remove(ids, note)
        if rows:
            notify("replayed", rows=[row for row in rows if row is not None], earlier=earlier)

    def _row(self, record: keep.KeptMessage) -> tuple[int, int, str, int | None] | None:
        identity = self._codec.decode(record.value).identity
        return identity and (identity.producer, identity.seq, record.topic, record.partition)


def main() -> None:
    """Sends everything. On failure reports it, then raises SystemExit (1)."""
    spec = ReplaySpec(**json.loads(Path(sys.argv[1]).read_text()))
    try:
        store: Any = ReportingStore(keep.open_store(spec.store), uuid.UUID(spec.run_id))
        settings = {**client_settings(spec), "logger": quiet_logger()}
        notify("ready")
        done = keep.replay(
            store, settings, rate=spec.rate, exactly_once=spec.exactly_once, include_in_flight=True
        )
    except KaputError as error:
        notify("trouble", message=str(error))
        raise SystemExit(1) from None
    notify("replay", **asdict(done))
    notify("done")


if __name__ == "__main__":
    run_client(main)
