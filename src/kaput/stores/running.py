"""The stores of a run and their servers: owned like brokers, hit by faults, read at the end, removed.

Not here: the replay (runner/replays.py).
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import psutil

from kaput.cache import cache_dir, exclusive
from kaput.clients import keep
from kaput.clients.keep.store import PAGE, count, records_of
from kaput.cluster import disk
from kaput.cluster.ivy import TOTAL_TIMEOUT_S, fetch
from kaput.cluster.lock import LockedJar, sha256_of
from kaput.cluster.network.loopback import HOST, Ports
from kaput.errors import DistributionError, LabError
from kaput.java import Java, find_java
from kaput.processes.ownership import OwnedProcess, Owner
from kaput.processes.pausable import PausableProcess
from kaput.scenario.stores import ServerKind, Store

# From Maven Central, where they are published for integration tests: without plugins and without Java.
_ZIPS = {
    "opensearch": LockedJar(
        "org.opensearch.distribution.integ-test-zip",
        "opensearch",
        "2.17.0",
        "e52c98b626cd17843f91399cdbb3a3c74dedc04df64335c11342eecee2b7c92c",
    ),
    "elasticsearch": LockedJar(
        "org.elasticsearch.distribution.integ-test-zip",
        "elasticsearch",
        "8.17.0",
        "c3e814c3fa6b31ffaa2bad55c3aa2121fd595b3ffe08a7adf3a4579adbcb91d9",
    ),
}
_MODULE = Path(__file__).parent / "mongodb"
_BUILD_TIMEOUT_S = 900


class GoNotFound(DistributionError):
    """Go is missing, which builds FerretDB."""


def search_engine_home(kind: str, java: Java) -> Path:
    """The directory of opensearch or elasticsearch, fetched if missing. Raises DistributionError."""
    locked, root = _ZIPS[kind], cache_dir("stores")
    home = root / f"{locked.artifact}-{locked.version}"
    if not home.is_dir():
        with exclusive(root / ".lock", TOTAL_TIMEOUT_S):
            if not home.is_dir():  # another kaput may have fetched it while this one waited
                _fetch(locked, java, root, home)
    return home


def _fetch(locked: LockedJar, java: Java, root: Path, home: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=".fetching-", dir=root) as name:
        staging = Path(name)
        module = (locked.group, locked.artifact, locked.version)
        fetch([module], java, staging, lambda: None, ext="zip")
        fetched = (staging / locked.relative).with_suffix(".zip")
        if (actual := sha256_of(fetched)) != locked.sha256:
            raise DistributionError(
                f"{fetched.name} is not the one that kaput knows: expected SHA-256 {locked.sha256}, "
                f"found {actual}"
            )
        with zipfile.ZipFile(fetched) as archive:
            archive.extractall(staging / "files")
        (staging / "files" / home.name).rename(home)


def mongodb_program() -> Path:
    """A server program for MongoDB's protocol, built if missing. Raises GoNotFound, DistributionError."""
    root = cache_dir("stores")
    program = root / f"ferretdb-{sha256_of(_MODULE / 'go.sum')[:16]}"
    if not program.is_file():
        go = shutil.which("go")
        if go is None:
            raise GoNotFound("FerretDB is built with Go, and there is no go on the PATH: https://go.dev/dl")
        with exclusive(root / ".lock", _BUILD_TIMEOUT_S):
            if not program.is_file():
                _build(go, root, program)
    return program


def _build(go: str, root: Path, program: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=".building-", dir=root) as name:
        source = Path(name)
        for file in ("go.mod", "go.sum", "main.go"):
            shutil.copy(_MODULE / file, source)
        done = subprocess.run(
            [go, "build", "-trimpath", "-buildvcs=false", "-o", "mongodb", "."],
            cwd=source,
            env={**os.environ, "GOFLAGS": "-mod=readonly"},
            capture_output=True,
            text=True,
            timeout=_BUILD_TIMEOUT_S,
            check=False,
        )
        if done.returncode != 0:
            raise DistributionError(f"FerretDB was not built: {done.stderr[-500:]}")
        (source / "mongodb").rename(program)


_Made = TypeVar("_Made")
_READY_S = 180.0
_JVM = "-Xms256m -Xmx256m -XX:TieredStopAtLevel=1"
_LOG_BYTES = 2_000
_AS_ANOTHER_USER = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]


class StoreServer:
    """A server with its own folder and two ports."""

    def __init__(
        self, owner: Owner, kind: ServerKind, folder: Path, ports: tuple[int, int], java: Java
    ) -> None:
        self.kind, self.folder, self.port = kind, folder, ports[0]
        self._owner = owner
        self._process: OwnedProcess | None = None
        self._log = folder / "output.log"
        self._env: dict[str, str] = {}
        (folder / "data").mkdir(parents=True, exist_ok=True)
        if kind == "mongodb":
            self._command = [str(mongodb_program()), f"{HOST}:{self.port}", str(folder / "data")]
        else:
            self._command = self._search_engine_command(search_engine_home(kind, java), ports, java)

    def url(self, name: str) -> str:
        """The URL of the collection or index `name`, for keep.open_store."""
        if self.kind == "mongodb":
            return f"mongodb://{HOST}:{self.port}/kaput.{name}"
        return f"{self.kind}+http://{HOST}:{self.port}/{name}"

    @property
    def running(self) -> bool:
        """Whether its process exists; this includes paused ones."""
        return self._process is not None and self._process.running

    def start(self) -> None:
        """Starts it with its port and data, unless it runs. Returns before it is ready."""
        if self.running:
            return
        with self._log.open("ab") as log:
            self._process = self._owner.spawn(
                self._command, name=self.kind, stdout=log, stderr=log, env=self._env, cwd=self.folder
            )

    def wait_ready(self, timeout_s: float = _READY_S) -> None:
        """Waits until it answers. Raises LabError with the end of its output."""
        limit = time.monotonic() + timeout_s
        while not self._answers():
            if not self.running or time.monotonic() > limit:
                why = f"was not ready within {timeout_s:.0f} s" if self.running else "ended"
                end = self._log.read_bytes()[-_LOG_BYTES:].decode(errors="replace")
                raise LabError(f"{self.kind} {why}; its output ends:\n{end}")
            time.sleep(0.1)

    def kill(self) -> int:
        """SIGKILL to all of its processes; returns when (ns) they were gone."""
        family = self._processes()
        for process in family:
            process.kill()
        if psutil.wait_procs(family, 10)[1]:
            raise LabError(f"{self.kind} is still there 10 s after SIGKILL")
        self._started().wait(10)
        return time.time_ns()

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def _started(self) -> OwnedProcess:
        if self._process is None:
            raise LabError(f"{self.kind} has not been started")
        return self._process

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._processes()]

    def signal(self, number: int) -> None:
        for process in self._processes():
            process.send_signal(number)

    def _processes(self) -> list[psutil.Process]:
        """All of its processes: Elasticsearch's launcher has the server as a child."""
        try:
            parent = psutil.Process(self._started().pid)
            return [*parent.children(recursive=True), parent]
        except psutil.NoSuchProcess:
            return []

    def _answers(self) -> bool:
        if self.kind == "mongodb":
            with socket.socket() as probe:
                return probe.connect_ex((HOST, self.port)) == 0
        url = f"http://{HOST}:{self.port}/_cluster/health?wait_for_status=yellow&timeout=1s"
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=5) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False

    def _search_engine_command(self, home: Path, ports: tuple[int, int], java: Java) -> list[str]:
        config = self.folder / "config"
        if not config.exists():
            shutil.copytree(home / "config", config)  # the server writes to it
        temporary = self.folder / "tmp"
        temporary.mkdir(exist_ok=True)
        prefix = "OPENSEARCH" if self.kind == "opensearch" else "ES"
        self._env = {
            # The default is in /tmp, where a killed server would leave it.
            f"{prefix}_TMPDIR": str(temporary),
            f"{prefix}_JAVA_HOME": str(java.path.resolve().parent.parent),
            f"{prefix}_JAVA_OPTS": _JVM,
            f"{prefix}_PATH_CONF": str(config),
        }
        settings = {
            "discovery.type": "single-node",
            "http.port": str(ports[0]),
            "transport.port": str(ports[1]),
            "path.data": str(self.folder / "data"),
            "path.logs": str(self.folder / "logs"),
            # Otherwise indexes become read-only when the disk is nearly full.
            "cluster.routing.allocation.disk.threshold_enabled": "false",
            **({"xpack.security.enabled": "false"} if self.kind == "elasticsearch" else {}),
        }
        program = ["bash", str(home / "bin" / self.kind), *(f"-E{k}={v}" for k, v in settings.items())]
        return [*_AS_ANOTHER_USER, *program] if os.geteuid() == 0 else program


COLLECTION = "kept"
_WARM_UPS = 5


class StoreTarget(PausableProcess):
    """A store as a target of faults: its server, if kaput started one, and its data folder."""

    def __init__(self, number: int, name: str, data: Path, server: StoreServer | None) -> None:
        self.id, self._name, self.data, self._server = number, name, data, server

    @property
    def title(self) -> str:
        return f"store {self._name}"

    def _started(self) -> StoreServer:
        if self._server is None:
            raise LabError(f"{self.title} has no process")
        return self._server

    def is_stopped(self) -> bool:
        return self._server is not None and super().is_stopped()

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
        self._started().start()
        self._started().wait_ready()

    def kill(self) -> int:
        """SIGKILL; returns when (ns) the server was gone. Raises LabError."""
        return self._started().kill()

    def terminate(self, timeout_s: float) -> bool:
        """Always raises LabError."""
        raise LabError("stores are not ended")

    def expect_down(self) -> None:
        """Does nothing: the end of a store is not watched."""

    expect_up = expect_down


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
        limit = began + (_READY_S if server is not None else 0)
        self._open[name] = patiently(lambda: keep.open_store(self.urls[name]), limit)
        if server is not None:
            self._note(f"store {name}: {server.kind} was ready after {time.monotonic() - began:.1f} s")
        if held := self.held(name):
            raise LabError(f"store {name} holds {held:,} messages already; a run needs an empty one")
        if server is not None:
            patiently(lambda: _warm_up(self._open[name]), limit)


def patiently(do: Callable[[], _Made], limit: float) -> _Made:
    """Repeats it until `until` (time.monotonic) while a new server is too slow. Raises StoreError."""
    while True:
        try:
            return do()
        except keep.StoreError:
            if time.monotonic() > limit:
                raise


def _warm_up(store: keep.MessageStore) -> None:
    """Warms up a server: its first writes can take longer than producers wait."""
    fields: dict[str, Any] = {"topic": "kaput-warm-up", "timestamp_ms": 0, "kept_ms": 0, "value": bytes(100)}
    records = [keep.KeptMessage(id=f"{number:04d}", **fields) for number in range(PAGE)]
    for _ in range(_WARM_UPS):
        store.put(records)
        store.remove([record.id for record in records])
