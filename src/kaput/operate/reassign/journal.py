"""The journal from which a reassignment resumes after a kill: written before it starts, deleted once
verified.

There is one per cluster id, in the user's state directory, next to the old assignments for rollbacks. The
lock ends with its holder, even if that is killed.
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

from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config

from kaput.cluster.admin.reassignments import Configs
from kaput.errors import LabError, UsageError
from kaput.operate.reassign.moves import Move, to_kafka_json
from kaput.operate.registry import journals, lock

SCHEMA = "kaput.reassignment/1"


@with_config(ConfigDict(extra="forbid"))  # its moves, too: a key that is not known may be one that matters
@dataclass(frozen=True)
class MoveJournal:
    """An active reassignment. `throttle`: bytes/s; `brokers`, `topics`: earlier settings (None: unset)."""

    cluster_id: str
    moves: Sequence[Move]
    throttle: int | None
    in_flight: int
    brokers: Configs
    topics: Configs
    rollback: str


_JOURNAL = TypeAdapter(MoveJournal)


class Folder:
    """The directory of the journals; tests use another `root`."""

    def __init__(self, root: Path | None = None) -> None:
        self._root = root or journals()

    def path(self, cluster_id: str) -> Path:
        """The path of a cluster's journal, whether it exists or not."""
        return self._root / f"{cluster_id}.json"

    @contextmanager
    def locked(self, cluster_id: str) -> Iterator[None]:
        """The lock against other kaput processes here. Raises UsageError if one reassigns the cluster."""
        descriptor = lock(self._lock_path(cluster_id))
        if descriptor is None:
            raise UsageError(f"another kaput is reassigning cluster {cluster_id} right now")
        try:
            yield
        finally:
            os.close(descriptor)

    def busy(self, cluster_id: str) -> bool:
        """Whether a kaput on this machine is reassigning this cluster right now."""
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

    def read(self, cluster_id: str) -> MoveJournal | None:
        """The journal; None if no reassignment is active. Raises UsageError for an invalid file."""
        path = self.path(cluster_id)
        try:
            data = json.loads(path.read_text())
            if data.pop("schema") != SCHEMA:
                raise UsageError(f"{path}: written by another version of kaput")
            return _JOURNAL.validate_python(data)
        except FileNotFoundError:
            return None
        except ValidationError as error:
            wrong = error.errors(include_url=False)[0]
            what = "unknown" if wrong["type"] == "unexpected_keyword_argument" else wrong["msg"].lower()
            key = ".".join(map(str, wrong["loc"]))
            raise UsageError(f"{path}: not a journal of kaput reassign: {key}: {what}") from None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UsageError(f"{path}: not a journal of kaput reassign: {error}") from None

    def begin(self, journal: MoveJournal) -> MoveJournal:
        """Writes the old assignment, for a rollback, then the journal, both synced. Raises LabError."""
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
        number, before = 0, self._root / f"{journal.cluster_id}-{stamp}.json"
        while before.exists():
            number += 1
            before = self._root / f"{journal.cluster_id}-{stamp}-{number}.json"
        document = to_kafka_json(
            ((move.topic_partition, move.before) for move in journal.moves), journal.cluster_id
        )
        written = replace(journal, rollback=str(before))
        _write(before, json.dumps(document))
        self.write(written)
        return written

    def write(self, journal: MoveJournal) -> None:
        """Replaces the journal. Raises LabError."""
        _write(self.path(journal.cluster_id), json.dumps({"schema": SCHEMA, **asdict(journal)}))

    def end(self, cluster_id: str) -> None:
        """Deletes the journal, once everything is verified."""
        self.path(cluster_id).unlink(missing_ok=True)

    def _lock_path(self, cluster_id: str) -> Path:
        return self._root / f"{cluster_id}.lock"


def _write(path: Path, text: str) -> None:
    """Writes the file atomically and syncs it to disk."""
    temporary = path.with_suffix(f".{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with temporary.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise LabError(f"{path} cannot be written: {error.strerror}") from None
