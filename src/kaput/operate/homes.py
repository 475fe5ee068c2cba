"""Where standing clusters are found by name: a directory each, with what they are and a socket to call them.

Its place: written by the keeper of a cluster, read by everybody who wants something of it.
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
class Card:
    """A standing cluster: its keeper's process, its brokers' addresses, and where their logs are."""

    name: str
    pid: int
    start: str
    bootstrap_servers: str
    folder: str
    network: str
    kafka: str
    kafka_home: str | None = None  # of an installation that it runs from
    client_properties: str | None = None  # the file by which clients are let in; None where everybody is
    cluster_id: str | None = None  # as Kafka has it; None where it could not be asked

    @property
    def alive(self) -> bool:
        """Whether its keeper, and not another process of the same id, still runs."""
        return start_of(self.pid) == self.start


@dataclass(frozen=True)
class Home:
    """The directory of one name."""

    name: str
    path: Path

    @property
    def folder(self) -> Path:
        """Configs and logs of its brokers."""
        return self.path / "nodes"

    @property
    def socket(self) -> Path:
        """Where its keeper is called."""
        return self.path / "keeper"

    @property
    def log(self) -> Path:
        """What a keeper in the background says."""
        return self.path.with_suffix(".log")  # beside it: each keeper begins with a fresh directory

    def log_of_start(self) -> Path:
        """The same while it starts: one for each attempt, since only one of several can succeed."""
        return self.path.with_suffix(f".{os.getpid()}.log")

    def card(self) -> Card | None:
        """None where no keeper has ever been ready."""
        try:
            return Card(**json.loads((self.path / "card.json").read_text()))
        except (OSError, ValueError, TypeError):
            return None

    def write(self, card: Card) -> None:
        """The cluster is ready."""
        beside = self.path / f"card.{os.getpid()}"
        beside.write_text(json.dumps(asdict(card)))
        beside.replace(self.path / "card.json")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Only one process at a time makes, uses or removes what is there: the keeper, for as long as it
        lives, and `kaput down` after it. Raises UsageError where another process does, LabError where no lock
        can be had.
        """
        path = self.path.with_suffix(".lock")
        descriptor = _lock(path)
        if descriptor is None:
            self.refuse_taken()
            raise UsageError(
                f"a cluster {self.name} is being started or taken down by another kaput right now: "
                "wait for it, or choose another --name"
            )
        try:
            yield
        finally:
            path.unlink(missing_ok=True)  # before the lock goes: see _lock
            os.close(descriptor)

    def refuse_taken(self) -> None:
        """Raises UsageError where a cluster of this name stands."""
        card = self.card()
        if card is not None and card.alive:
            raise UsageError(
                f"a cluster {self.name} stands already (kaput status --cluster {self.name}); "
                f"choose another --name, or take it down: kaput down --cluster {self.name}"
            )

    def make(self) -> None:
        """A fresh directory, for who has it locked. Raises UsageError where a cluster of this name stands,
        LabError elsewise.
        """
        self.refuse_taken()
        self._forget_reassignments()
        try:
            shutil.rmtree(self.path, ignore_errors=True)
            self.path.mkdir(parents=True, mode=0o700)
        except OSError as error:
            raise LabError(f"{self.path} cannot be made ({error.strerror}); set XDG_STATE_HOME") from None

    def remove(self) -> None:
        """Forgets it, for who has it locked; what is gone already does no harm."""
        self._forget_reassignments()
        shutil.rmtree(self.path, ignore_errors=True)
        self.log.unlink(missing_ok=True)
        for log in self.path.parent.glob(f"{self.name}.*.log"):
            pid = log.name.split(".")[1]
            if pid.isdigit() and start_of(int(pid)) is None:  # the process that waited for it was killed
                log.unlink(missing_ok=True)

    def _forget_reassignments(self) -> None:
        card = self.card()
        if card is not None and card.cluster_id:
            from kaput.operate.reassign.journal import Folder  # brings Kafka's client, for this alone

            Folder().forget(card.cluster_id)


def home(name: str) -> Home:
    """The home of that name, whether anything stands there or not. Raises UsageError for a strange name."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no name of a cluster: write small letters, digits and dashes")
    return Home(name, _root() / name)


def standing() -> list[Card]:
    """Every cluster that stands, by name."""
    try:
        homes = [Home(path.name, path) for path in sorted(_root().iterdir())]
    except OSError:
        return []
    return [card for each in homes if (card := each.card()) is not None and card.alive]


def find(name: str) -> Card:
    """The standing cluster of that name. Raises UsageError where there is none."""
    card = home(name).card()
    if card is not None and card.alive:
        return card
    others = [other.name for other in standing()]
    known = hint(name, others) if others else "none does: kaput up --detach starts one"
    died = " (its keeper has died; kaput down tidies up)" if card is not None else ""
    raise UsageError(f"no cluster {name} stands{died}; {known}")


def call(card: Card, request: dict[str, object]) -> Any:
    """The keeper's answer. Raises UsageError or LabError with what it has against it, or when it is gone."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
            caller.settimeout(_CALL_TIMEOUT_S)
            caller.connect(str(home(card.name).socket))
            caller.sendall(json.dumps(request).encode() + b"\n")
            with caller.makefile("rb") as answer:
                said = json.loads(answer.readline() or b"{}")
    except (OSError, ValueError) as error:
        raise LabError(f"the keeper of {card.name} does not answer: {error}") from None
    if "error" in said:
        raise (UsageError if said.get("usage") else LabError)(said["error"])
    if not said:
        raise LabError(f"the keeper of {card.name} hung up")
    return said["said"]


def _lock(path: Path) -> int | None:
    """An open file with the kernel's lock on it, which goes with the process; None where another one has it.

    The file goes with its holder, so what was locked may be no file any more: then there is a new one to try.
    """
    while True:
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        except OSError as error:
            raise LabError(f"{path} cannot be made ({error.strerror}); set XDG_STATE_HOME") from None
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
            raise LabError(f"{path} cannot be locked ({error.strerror}); set XDG_STATE_HOME") from None


def _root() -> Path:
    # Beside the owners of processes, and like them apart for each machine and container.
    return Path(platformdirs.user_state_dir("kaput")) / "clusters" / registry().name
