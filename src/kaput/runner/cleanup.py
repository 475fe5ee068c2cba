"""Undoes what a run created and broke in an existing cluster: at its end, or after a SIGKILL.

RUN_DIR/made.json is the journal of it: written before anything is created and after it is undone, so that
`kaput undo RUN_DIR` knows what is left however kaput ended. Heals first, then deletes groups and topics.
Deletes a topic only by the id it was created with.
"""

from __future__ import annotations

import shlex
import subprocess
import threading
import uuid
from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel, ValidationError

from kaput.cluster.access import OPEN, Access
from kaput.cluster.admin import Admin
from kaput.cluster.existing_cluster import ExistingCluster
from kaput.errors import EvidenceError, LabError
from kaput.evidence.folder import RunFolder, not_a_run, replace_text

NAME = "made.json"


class PendingHeal(BaseModel):
    """The heal of one step: the arguments of each command line; none if the fault ends by itself."""

    step: str
    brokers: list[int]
    heals: list[list[str]] = []


class CreatedResources(BaseModel):
    """`topics`: ids by name, None until confirmed; `groups`: the settings that were set, by group."""

    bootstrap_servers: str
    cluster_id: str | None = None
    command_config: str | None = None
    topics: dict[str, uuid.UUID | None] = {}
    groups: dict[str, list[str]] = {}
    pending_heals: list[PendingHeal] = []

    @property
    def nothing(self) -> bool:
        """Whether nothing is left."""
        return not (self.topics or self.groups or self.pending_heals)


class CleanupJournal:
    """Keeps RUN_DIR/made.json up to date. Thread-safe."""

    def __init__(self, folder: Path, created: CreatedResources) -> None:
        self._path, self.created = folder / NAME, created
        self._lock = threading.Lock()

    def note(self) -> None:
        """Writes the file; it is on disk when this returns."""
        with self._lock:
            self._write()

    def add_pending_heal(self, heal: PendingHeal) -> None:
        """Records that a step is about to break something."""
        with self._lock:
            self.created.pending_heals.append(heal)
            self._write()

    def heal_done(self, step: str) -> None:
        with self._lock:
            self.created.pending_heals = [each for each in self.created.pending_heals if each.step != step]
            self._write()

    def _write(self) -> None:
        replace_text(self._path, self.created.model_dump_json(indent=2) + "\n")


def read_journal(folder: Path) -> CreatedResources:
    """Reads the journal of a run. Raises EvidenceError naming the file."""
    path = folder / NAME
    try:
        return CreatedResources.model_validate_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        if not RunFolder(folder).manifest_path.is_file():
            raise EvidenceError(not_a_run(folder)) from None
        raise EvidenceError(
            f"{folder}: nothing to undo; name the folder of a run with --bootstrap-servers"
        ) from None
    except OSError as error:
        raise EvidenceError(f"{path}: cannot be read ({error.strerror})") from None
    except ValidationError as error:
        raise EvidenceError(f"{path}: malformed: {error.errors()[0]['msg']}") from None


_ASK_S = 60.0  # killed members stay in their group until their session times out


def clean_up(
    journal: CleanupJournal,
    cluster: ExistingCluster,
    admin_of: Callable[[ExistingCluster, float], Admin] = Admin,
) -> list[str]:
    """Undoes what is left; returns a sentence, with what to do, for each thing that stays."""
    created = journal.created
    if created.nothing:
        return []
    failures = [text for heal in list(created.pending_heals) if (text := _heal(heal, journal))]
    try:
        cluster.refresh()
        if cluster.cluster_id != created.cluster_id:
            raise LabError(f"{created.bootstrap_servers} is now another cluster ({cluster.cluster_id})")
        with admin_of(cluster, _ASK_S) as admin:
            failures += _delete(admin, journal)
    except LabError as error:
        failures.append(f"{_leftovers_text(journal)} may be left in {created.bootstrap_servers}: {error}")
    if not created.nothing and created.topics | created.groups:
        failures.append("the run folder lists what is left: kaput undo RUN_DIR tries again")
    return failures


def clean_up_folder(folder: Path) -> list[str]:
    """Cleans up later, from RUN_DIR/made.json. Raises UsageError."""
    created = read_journal(folder)
    access = Access.read(Path(created.command_config)) if created.command_config else OPEN
    return clean_up(CleanupJournal(folder, created), ExistingCluster(created.bootstrap_servers, access))


def _heal(heal: PendingHeal, journal: CleanupJournal) -> str | None:
    for words in heal.heals:
        try:
            done = subprocess.run(
                words, stdin=subprocess.DEVNULL, capture_output=True, timeout=120.0, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{heal.step} is not healed: {shlex.join(words)}: {error}"
        if done.returncode != 0:
            return f"{heal.step} is not healed: {shlex.join(words)} ended with exit status {done.returncode}"
    journal.heal_done(heal.step)
    return None


def _delete(admin: Admin, journal: CleanupJournal) -> list[str]:
    created, failures = journal.created, list[str]()

    def tried(undo: Callable[[], None]) -> bool:
        try:
            undo()
        except LabError as error:
            failures.append(str(error))
            return False
        return True

    for group, keys in list(created.groups.items()):
        if tried(lambda: admin.delete_group(group, keys)):  # noqa: B023 - called at once
            del created.groups[group]
    known = {name: id_ for name, id_ in created.topics.items() if id_ is not None}
    if tried(lambda: admin.delete_topics(known)):
        for name in known:
            del created.topics[name]
    for name in list(created.topics):
        if not tried(lambda: _forget_unconfirmed(admin, name)):  # noqa: B023 - called at once
            continue
        del created.topics[name]
    journal.note()
    return failures


def _forget_unconfirmed(admin: Admin, name: str) -> None:
    """Handles a topic whose creation was not confirmed: if it exists, it may be another user's."""
    if admin.ids([name]):
        raise LabError(
            f"topic {name} may belong to this run or to somebody else: kaput ended before its creation was "
            "confirmed. "
            f"To delete it: kafka-topics --delete --topic {name}"
        )


def _leftovers_text(journal: CleanupJournal) -> str:
    created = journal.created
    parts = [f"topic {name}" for name in created.topics] + [f"group {name}" for name in created.groups]
    return ", ".join(parts) or "nothing"
