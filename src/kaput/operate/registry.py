"""The registry of clusters that `kaput up` started: a directory for each name, with an entry and a socket.

Its place: written by a cluster's daemon, read by every command that works on a running cluster.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import platformdirs

from kaput.errors import LabError, UsageError
from kaput.processes.records import registry, start_of
from kaput.scenario.nearest import hint

DEFAULT_NAME = "lab"
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,30}")
_CALL_TIMEOUT_S = 300.0


@dataclass(frozen=True)
class ClusterEntry:
    """A running cluster: its daemon's process, its brokers' addresses, and where their logs are."""

    name: str
    pid: int
    start: str
    bootstrap_servers: str
    folder: str
    network: str
    kafka: str
    kafka_home: str | None = None  # the Kafka installation that it runs from
    client_properties: str | None = None  # the security settings for clients; None if they need none
    cluster_id: str | None = None  # Kafka's id; None if no broker answered
    metrics: str | None = None  # the URL of its /metrics (kaput up --metrics)
    dashboard: str | None = None  # the URL of its control room, with its key (kaput up --dashboard)

    @property
    def alive(self) -> bool:
        """Whether its daemon still runs, and not another process with the same pid."""
        return start_of(self.pid) == self.start


@dataclass(frozen=True)
class ClusterDirectory:
    name: str
    path: Path

    @property
    def folder(self) -> Path:
        """Configs and logs of the brokers."""
        return self.path / "nodes"

    @property
    def socket(self) -> Path:
        return self.path / "daemon"

    @property
    def log(self) -> Path:
        """The output of a daemon in the background."""
        return self.path.with_suffix(".log")  # not inside: each daemon starts with an empty directory

    def log_of_start(self) -> Path:
        """The daemon's output during startup: one file per attempt, of which only one can succeed."""
        return self.path.with_suffix(f".{os.getpid()}.log")

    def entry(self) -> ClusterEntry | None:
        """The entry; None if no daemon has ever been ready."""
        try:
            return ClusterEntry(**json.loads((self.path / "cluster.json").read_text()))
        except (OSError, ValueError, TypeError):
            return None

    def write(self, entry: ClusterEntry) -> None:
        temporary = self.path / f"cluster.{os.getpid()}"
        temporary.write_text(json.dumps(asdict(entry)))
        temporary.replace(self.path / "cluster.json")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """The lock of the process that creates, uses or removes the directory: the daemon while it runs,
        `kaput down` after it. Raises UsageError if another process holds it, LabError if locking fails.
        """
        path = self.path.with_suffix(".lock")
        descriptor = lock(path)
        if descriptor is None:
            self.check_free()
            raise UsageError(
                f"another kaput is starting or stopping cluster {self.name} right now: "
                "wait for it, or choose another --cluster"
            )
        try:
            yield
        finally:
            path.unlink(missing_ok=True)  # before releasing the lock: see `lock`
            os.close(descriptor)

    def check_free(self) -> None:
        """Raises UsageError if a cluster of this name is running."""
        entry = self.entry()
        if entry is not None and entry.alive:
            raise UsageError(
                f"cluster {self.name} is already running (kaput status --cluster {self.name}); "
                f"choose another --cluster, or stop it: kaput down --cluster {self.name}"
            )

    def create(self) -> None:
        """Creates an empty directory; the caller holds the lock. Raises UsageError if a cluster of this name
        is running, LabError if the directory cannot be created.
        """
        self.check_free()
        self._delete_journals()
        try:
            shutil.rmtree(self.path, ignore_errors=True)
            self.path.mkdir(parents=True, mode=0o700)
        except OSError as error:
            raise LabError(f"cannot create {self.path} ({error.strerror}); set XDG_STATE_HOME") from None

    def remove(self) -> None:
        """Deletes the directory; the caller holds the lock. Missing files are no error."""
        self._delete_journals()
        shutil.rmtree(self.path, ignore_errors=True)
        self.log.unlink(missing_ok=True)
        for log in self.path.parent.glob(f"{self.name}.*.log"):
            pid = log.name.split(".")[1]
            if pid.isdigit() and start_of(int(pid)) is None:  # the process that was starting it was killed
                log.unlink(missing_ok=True)

    def _delete_journals(self) -> None:
        entry = self.entry()
        if entry is not None and entry.cluster_id:
            delete_journals(entry.cluster_id)


def directory_of(name: str) -> ClusterDirectory:
    """The directory for a name, even if no cluster runs. Raises UsageError for an invalid name."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is not a cluster name: use lowercase letters, digits and dashes")
    return ClusterDirectory(name, _root() / name)


def running() -> list[ClusterEntry]:
    """Every running cluster, by name."""
    try:
        directories = [ClusterDirectory(path.name, path) for path in sorted(_root().iterdir())]
    except OSError:
        return []
    return [entry for each in directories if (entry := each.entry()) is not None and entry.alive]


def find(name: str) -> ClusterEntry:
    """The running cluster of that name. Raises UsageError if there is none."""
    entry = directory_of(name).entry()
    if entry is not None and entry.alive:
        return entry
    others = [other.name for other in running()]
    known = hint(name, others) if others else "kaput up --detach starts one"
    died = " (its daemon died; kaput down cleans up)" if entry is not None else ""
    raise UsageError(f"no cluster named {name!r} is running{died}; {known}")


def call(entry: ClusterEntry, request: dict[str, object], timeout_s: float = _CALL_TIMEOUT_S) -> Any:
    """The daemon's answer. Raises UsageError or LabError with its message, LabError if it does not answer."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
            caller.settimeout(timeout_s)
            caller.connect(str(directory_of(entry.name).socket))
            caller.sendall(json.dumps(request).encode() + b"\n")
            with caller.makefile("rb") as reader:
                answer = json.loads(reader.readline() or b"{}")
    except (OSError, ValueError) as error:
        raise LabError(f"the daemon of cluster {entry.name} does not answer: {error}") from None
    if "error" in answer:
        raise (UsageError if answer.get("usage") else LabError)(answer["error"])
    if not answer:
        raise LabError(f"the daemon of cluster {entry.name} closed the connection")
    return answer["result"]


def lock(path: Path) -> int | None:
    """A file descriptor with the kernel's lock, which ends with the process; None if another one holds it.
    The holder deletes the file when it is done, so the file just locked may be gone: then try the new one.
    """
    while True:
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        except OSError as error:
            raise LabError(f"cannot create {path} ({error.strerror}); set XDG_STATE_HOME") from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.stat().st_ino == os.fstat(descriptor).st_ino:
                return descriptor
            os.close(descriptor)
        except FileNotFoundError:
            os.close(descriptor)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except OSError as error:
            os.close(descriptor)
            raise LabError(f"cannot lock {path} ({error.strerror}); set XDG_STATE_HOME") from None


def _root() -> Path:
    # Next to the process records and, like them, separate for each machine and container.
    return Path(platformdirs.user_state_dir("kaput")) / "clusters" / registry().name


def journals() -> Path:
    """The directory of the journals of reassignments (reassign/journal.py)."""
    return Path(platformdirs.user_state_dir("kaput")) / "reassignments"


def delete_journals(cluster_id: str) -> None:
    """Deletes the journals about a cluster that no longer exists."""
    root = journals()
    for path in [*root.glob(f"{cluster_id}.*"), *root.glob(f"{cluster_id}-*.json")]:
        path.unlink(missing_ok=True)
