"""What a reassignment needs to go on after a kill: written before it begins, gone once all is verified.

One for each cluster, by its id, in the user's state directory; beside it the assignments of before, for a
rollback. The lock ends with its holder, also by SIGKILL.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import platformdirs

from kaput.errors import LabError, UsageError
from kaput.operate.reassign.cluster import Configs
from kaput.operate.reassign.moves import Move, as_kafkas

SCHEMA = "kaput.reassignment/1"


@dataclass(frozen=True)
class Journal:
    """A reassignment under way. `throttle`: bytes a second for each broker, None: none. `brokers` and
    `topics`: what the settings of throttles were before, None where there were none.
    """

    cluster_id: str
    moves: Sequence[Move]
    throttle: int | None
    in_flight: int
    brokers: Configs
    topics: Configs
    rollback: str


class Folder:
    """Where the journals are; `root`: another place, for tests."""

    def __init__(self, root: Path | None = None) -> None:
        self._root = root or Path(platformdirs.user_state_dir("kaput")) / "reassignments"

    def path(self, cluster_id: str) -> Path:
        """The journal of a cluster, whether there is one or not."""
        return self._root / f"{cluster_id}.json"

    @contextmanager
    def locked(self, cluster_id: str) -> Iterator[None]:
        """Nobody else reassigns this cluster from here meanwhile. Raises UsageError where somebody does."""
        self._make()
        descriptor = os.open(self._lock_path(cluster_id), os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise UsageError(f"another kaput reassigns cluster {cluster_id} right now") from None
        try:
            yield
        finally:
            os.close(descriptor)

    def busy(self, cluster_id: str) -> bool:
        """Whether a kaput on this machine reassigns this cluster right now."""
        try:
            descriptor = os.open(self._lock_path(cluster_id), os.O_RDONLY)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def forget(self, cluster_id: str) -> None:
        """The cluster is gone: so is what there was to resume, and to go back to."""
        for path in [*self._root.glob(f"{cluster_id}.*"), *self._root.glob(f"{cluster_id}-*.json")]:
            path.unlink(missing_ok=True)

    def read(self, cluster_id: str) -> Journal | None:
        """None where nothing is under way. Raises UsageError for a file that is not a journal."""
        path = self.path(cluster_id)
        try:
            data = json.loads(path.read_text())
            if data.pop("schema") != SCHEMA:
                raise UsageError(f"{path}: written by another version of kaput")
            moves = [
                Move(**{**each, "before": tuple(each["before"]), "after": tuple(each["after"])})
                for each in data.pop("moves")
            ]
            return Journal(moves=moves, **data)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{path}: not a journal of kaput reassign: {error}") from None

    def begin(self, journal: Journal) -> Journal:
        """Writes what was before, for a rollback, and then the journal, both to the disk. Raises LabError."""
        self._make()
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
        number, before = 0, self._root / f"{journal.cluster_id}-{stamp}.json"
        while before.exists():
            number += 1
            before = self._root / f"{journal.cluster_id}-{stamp}-{number}.json"
        document = as_kafkas(((move.place, move.before) for move in journal.moves), journal.cluster_id)
        written = replace(journal, rollback=str(before))
        _write(before, json.dumps(document))
        self.write(written)
        return written

    def write(self, journal: Journal) -> None:
        """In place of what was there. Raises LabError."""
        _write(self.path(journal.cluster_id), json.dumps({"schema": SCHEMA, **asdict(journal)}))

    def end(self, cluster_id: str) -> None:
        """All of it is verified: nothing is under way."""
        self.path(cluster_id).unlink(missing_ok=True)

    def _lock_path(self, cluster_id: str) -> Path:
        return self._root / f"{cluster_id}.lock"

    def _make(self) -> None:
        try:
            self._root.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise LabError(f"{self._root} cannot be made ({error.strerror}); set XDG_STATE_HOME") from None


def _write(path: Path, text: str) -> None:
    """All of it or nothing, and on the disk when this returns."""
    beside = path.with_suffix(f".{os.getpid()}")
    try:
        with beside.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise LabError(f"{path} cannot be written: {error.strerror}") from None
