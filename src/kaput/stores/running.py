"""The stores of a run: created before the load, hit by faults, read at the end, and removed after it.

Not here: the replay (runner/replays.py), and a single server (server.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from kaput.clients import keep
from kaput.clients.keep.store import PAGE, count, records_of
from kaput.cluster import disk
from kaput.cluster.network.loopback import Ports
from kaput.errors import LabError
from kaput.java import find_java
from kaput.processes.ownership import Owner
from kaput.scenario.stores import Store
from kaput.stores.server import StoreServer

COLLECTION = "kept"
_WARM_UPS = 5


class StoreTarget:
    """A store as a target of faults: its server, if kaput started one, and its data folder."""

    def __init__(self, number: int, name: str, data: Path, server: StoreServer | None) -> None:
        self.id, self.title, self.data, self._server = number, f"store {name}", data, server

    @property
    def server(self) -> StoreServer:
        """The store's server. Raises LabError if it has none."""
        if self._server is None:
            raise LabError(f"{self.title} has no process")
        return self._server

    @property
    def pid(self) -> int | None:
        """The process id of its last start; None without a server."""
        return None if self._server is None else self._server.pid

    @property
    def running(self) -> bool:
        """Whether its process exists; always true for a store without one."""
        return self._server is None or self._server.running

    def start(self) -> None:
        """Starts its server, unless it runs, and waits until it answers. Raises LabError."""
        self.server.start()
        self.server.wait_ready()

    def kill(self) -> int:
        """SIGKILL; returns when (ns) the server was gone. Raises LabError."""
        return self.server.kill()

    def terminate(self, timeout_s: float) -> bool:
        """Always raises LabError."""
        raise LabError("stores are not ended")

    def pause(self) -> None:
        """SIGSTOP. Raises LabError."""
        self.server.pause()

    def resume(self) -> None:
        """SIGCONT. Raises LabError."""
        self.server.resume()

    def is_stopped(self) -> bool:
        """Whether it is stopped, with all of its threads."""
        return self._server is not None and self._server.running and self._server.is_stopped()

    def cpu_seconds(self) -> float:
        """The CPU time that the server has used. Raises LabError."""
        return self.server.cpu_seconds()

    def expect_down(self) -> None:
        """Does nothing: the end of a store is not watched."""

    def expect_up(self) -> None:
        """Does nothing: the end of a store is not watched."""


class RunningStores:
    """All stores of a scenario, inside the `with` block. `urls`: by name, for keep.open_store."""

    def __init__(
        self, owner: Owner, stores: Mapping[str, Store], folder: Path, note: Callable[[str], None]
    ) -> None:
        self._owner, self._stores, self._folder, self._note = owner, stores, folder / "stores", note
        self._ports = Ports()
        self._targets: dict[str, StoreTarget] = {}
        # Kept open: SQLite deletes a file when the last connection closes, which would free space on a full
        # disk.
        self._open: dict[str, keep.MessageStore] = {}
        self.urls: dict[str, str] = {}

    def __enter__(self) -> RunningStores:
        if self._stores:
            self._owner.own_path(self._folder)
        try:
            servers = {name: self._create(name, store) for name, store in self._stores.items()}
            for name, server in servers.items():
                self._await_and_open(name, server)
        except BaseException:
            self._ports.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for store in self._open.values():
            with suppress(keep.StoreError):
                store.close()
        self._ports.close()

    def target(self, name: str) -> StoreTarget:
        """The store as a target of faults. Raises LabError if kaput did not create it."""
        if name not in self._targets:
            raise LabError(f"there is no store {name} of kaput's own")
        return self._targets[name]

    def records(self, name: str) -> Iterator[keep.KeptMessage]:
        """All records in a store. Raises StoreError."""
        return records_of(self._open[name])

    def held(self, name: str) -> int:
        """The number of messages in a store. Raises StoreError."""
        return count(self._open[name])

    def _create(self, name: str, store: Store) -> StoreServer | None:
        """Creates a store, starts its server if it has one, and records its URL."""
        if store.where is not None:
            self.urls[name] = store.where
            return None
        folder = self._folder / name
        data = folder / "data" if store.is_server else folder
        if store.disk_mb is not None:
            disk.mount(self._owner.own_path(data), store.disk_mb)
        server = None
        match store.kind:
            case "sqlite":
                data.mkdir(parents=True, exist_ok=True)
                self.urls[name] = f"sqlite:{data / 'kept.db'}"
                keep.SQLite(data / "kept.db").close()
            case "failure-log":
                self.urls[name] = f"log:{data}"
                keep.FailureLog(data).close()
            case kind:
                first, second = self._ports.reserve(2)
                server = StoreServer(self._owner, kind, folder, (first, second), find_java())
                self.urls[name] = server.url(COLLECTION)
                server.start()
        self._targets[name] = StoreTarget(len(self._targets) + 1, name, data, server)
        return server

    def _await_and_open(self, name: str, server: StoreServer | None) -> None:
        began = time.monotonic()
        if server is not None:
            server.wait_ready()
        self._open[name] = keep.open_store(self.urls[name])
        if server is not None:
            self._note(f"store {name}: {server.kind} was ready after {time.monotonic() - began:.1f} s")
        if held := self.held(name):
            raise LabError(f"store {name} holds {held:,} messages already; a run needs an empty one")
        if server is not None:
            _warm_up(self._open[name])


def _warm_up(store: keep.MessageStore) -> None:
    """Warms up a server: its first writes can take longer than producers wait."""
    fields: dict[str, Any] = {"topic": "kaput-warm-up", "timestamp_ms": 0, "kept_ms": 0, "value": bytes(100)}
    records = [keep.KeptMessage(id=f"{number:04d}", **fields) for number in range(PAGE)]
    for _ in range(_WARM_UPS):
        store.put(records)
        store.remove([record.id for record in records])
