"""Undoes what a run created and broke in an existing cluster: at its end, or after a SIGKILL.

RUN_DIR/made.json is the journal of it: written before anything is created and after it is undone, so that
`kaput undo RUN_DIR` knows what is left however kaput ended. Heals first, then deletes groups and topics.
A heal that was cut off may have done its work, and fail when it is repeated: as in a run, what `prove` or the
broker answers afterwards decides. Deletes a topic only by the id it was created with.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from pydantic import BaseModel, ValidationError

from kaput.cluster.access import OPEN, Access
from kaput.cluster.admin import Admin
from kaput.cluster.existing_cluster import ExistingCluster
from kaput.errors import EvidenceError, LabError, UsageError
from kaput.evidence.folder import RunFolder, not_a_run, replace_text
from kaput.faults.command import probe_result
from kaput.faults.fault import CommandResult
from kaput.processes.ownership import Owner

NAME = "made.json"
COMMANDS = "commands"  # the folder of their outputs
_LAST_CHARACTERS = 300


class PendingHeal(BaseModel):
    """The heal of one step: the arguments of a command line for each broker; none if it ends by itself.
    Without `proves`, the fault is over when the broker answers.
    """

    step: str
    brokers: list[int]
    heals: list[list[str]] = []
    proves: list[list[str]] = []
    environments: list[dict[str, str]] = []
    timeout_s: float = 30.0


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
        return not (self.topics or self.groups or self.pending_heals)


class CleanupJournal:
    """Keeps RUN_DIR/made.json up to date. Thread-safe."""

    def __init__(self, folder: Path, created: CreatedResources) -> None:
        self.folder, self._path, self.created = folder, folder / NAME, created
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

    def forget(self, steps: Sequence[str]) -> None:
        """Leaves out the heals of these steps. Raises UsageError if one is not pending."""
        pending = [each.step for each in self.created.pending_heals]
        for step in steps:
            if step not in pending:
                raise UsageError(f"no heal of {step} is pending; pending: {', '.join(pending) or 'none'}")
        for step in steps:
            self.heal_done(step)

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
    heals = list(created.pending_heals)
    failures = [text for heal in heals if (text := _heal(heal, journal, cluster))]
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


def clean_up_folder(folder: Path, forget: Sequence[str] = ()) -> list[str]:
    """Cleans up later, from RUN_DIR/made.json. `forget`: steps that need no heal. Raises UsageError."""
    created = read_journal(folder)
    access = Access.read(Path(created.command_config)) if created.command_config else OPEN
    journal = CleanupJournal(folder, created)
    journal.forget(forget)
    return clean_up(journal, ExistingCluster(created.bootstrap_servers, access))


def _heal(heal: PendingHeal, journal: CleanupJournal, cluster: ExistingCluster) -> str | None:
    """Heals what a step broke; a sentence if it is not healed."""
    if not heal.heals:
        journal.heal_done(heal.step)
        return None
    failed = []
    for number, (broker, words) in enumerate(zip(heal.brokers, heal.heals, strict=True)):
        path = journal.folder / COMMANDS / f"{heal.step}-heal-{broker}.txt"
        ran = _run(words, _environment(heal, number), path)
        if ran.status != 0:
            failed.append(f"{ran.how(shlex.join(words))} (its output: {path})")
    if not (lasting := _lasting(heal, journal, cluster)):
        journal.heal_done(heal.step)
        return None
    probe = "prove does not show that its fault is over" if heal.proves else "does not answer"
    why = f"broker {', '.join(map(str, lasting))}: {probe}, {heal.timeout_s:g} s after the heal"
    way_out = f"if it needs no heal: kaput undo RUN_DIR --forget {heal.step}"
    return f"{heal.step} is not healed: {'; '.join([why, *failed, way_out])}"


def _lasting(heal: PendingHeal, journal: CleanupJournal, cluster: ExistingCluster) -> list[int]:
    """The brokers that are not known to be healed when time is up."""
    limit = time.monotonic() + heal.timeout_s
    while True:
        lasting = [broker for number, broker in enumerate(heal.brokers)
                   if not _over(heal, number, journal, cluster)]  # fmt: skip
        if not lasting or time.monotonic() >= limit:
            return lasting
        time.sleep(0.2)


def _over(heal: PendingHeal, number: int, journal: CleanupJournal, cluster: ExistingCluster) -> bool:
    broker = heal.brokers[number]
    if heal.proves:
        path = journal.folder / COMMANDS / f"{heal.step}-prove-{broker}.txt"
        return probe_result(_run(heal.proves[number], _environment(heal, number), path)) is False
    try:
        cluster.refresh()
    except LabError:
        return False
    return cluster.cluster_id == journal.created.cluster_id and cluster.answers(broker)


def _environment(heal: PendingHeal, number: int) -> Mapping[str, str]:
    return heal.environments[number] if heal.environments else {}


_COMMAND_S = 120.0


def _run(words: Sequence[str], environment: Mapping[str, str], path: Path) -> CommandResult:
    try:
        with Owner(marks_environment=False) as owner:
            return run_command(owner, words, "undo", environment, path, _COMMAND_S)
    except LabError as error:
        return CommandResult(127, str(error))  # as a shell's: there is no such program


def run_command(
    owner: Owner,
    words: Sequence[str],
    name: str,
    environment: Mapping[str, str],
    path: Path,
    timeout_s: float,
) -> CommandResult:
    """Runs a command; appends it, its output and how it ended. Raises LabError if it cannot be started."""
    path.parent.mkdir(exist_ok=True)
    with path.open("a+b") as output:
        output.write(f"$ {shlex.join(words)}\n".encode())
        output.flush()
        begin = output.tell()
        try:
            process = owner.spawn(
                words, name=name, stdout=output, stderr=subprocess.STDOUT, env=environment, marked=False
            )
        except LabError as error:
            output.write(f"{error}\n{_ended(127)}".encode())  # as a shell's: there is no such program
            raise
        status = process.wait(timeout_s)
        if status is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # with all children of its shell
            process.kill()
        output.seek(begin)
        lines = output.read().decode(errors="replace").strip().splitlines()
        output.write(_ended(status).encode())
    return CommandResult(status, lines[-1][:_LAST_CHARACTERS] if lines else "")


def _ended(status: int | None) -> str:
    ended = "timed out: killed" if status is None else f"exit status {status}"
    return f"({ended}, {time.strftime('%H:%M:%S', time.gmtime())})\n"


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
