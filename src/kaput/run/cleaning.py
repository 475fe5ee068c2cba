"""Undoes what a run has made and broken in a cluster that was there before: at its end, or after a SIGKILL.

Heals first, then groups and topics. Nothing is deleted but by the id that it was made with.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

from kaput.cluster.access import OPEN, Access
from kaput.cluster.existing import ExistingCluster
from kaput.cluster.existing_admin import ExistingAdmin
from kaput.errors import LabError
from kaput.run.made import Journal, Owed, read_made

_HEAL_S = 120.0
_ASK_S = 60.0  # members that were killed are members until their session has run out


def clean(
    journal: Journal,
    cluster: ExistingCluster,
    admin_of: Callable[[ExistingCluster, float], ExistingAdmin] = ExistingAdmin,
) -> list[str]:
    """Undoes what is left; a sentence about everything that could not be undone, with what to do about it."""
    made = journal.made
    if made.nothing:
        return []
    said = [text for owed in list(made.owed) if (text := _heal(owed, journal))]
    try:
        cluster.refresh()
        if cluster.cluster_id != made.cluster_id:
            raise LabError(f"{made.bootstrap_servers} is another cluster by now ({cluster.cluster_id})")
        with admin_of(cluster, _ASK_S) as admin:
            said += _unmake(admin, journal)
    except LabError as error:
        said.append(f"{_named(journal)} may be left in {made.bootstrap_servers}: {error}")
    if not made.nothing and made.topics | made.groups:
        said.append("what is left is noted in the run folder: kaput cleanup RUN_DIR tries again")
    return said


def clean_folder(folder: Path) -> list[str]:
    """The same after the fact; RUN_DIR/made.json says what there is. Raises UsageError."""
    made = read_made(folder)
    access = Access.read(Path(made.command_config)) if made.command_config else OPEN
    return clean(Journal(folder, made), ExistingCluster(made.bootstrap_servers, access))


def _heal(owed: Owed, journal: Journal) -> str | None:
    for words in owed.heals:
        try:
            done = subprocess.run(
                words, stdin=subprocess.DEVNULL, capture_output=True, timeout=_HEAL_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{owed.step} is not healed: {shlex.join(words)}: {error}"
        if done.returncode != 0:
            return f"{owed.step} is not healed: {shlex.join(words)} ended with exit status {done.returncode}"
    journal.settle(owed.step)
    return None


def _unmake(admin: ExistingAdmin, journal: Journal) -> list[str]:
    made, said = journal.made, list[str]()

    def tried(undo: Callable[[], None]) -> bool:
        try:
            undo()
        except LabError as error:
            said.append(str(error))
            return False
        return True

    for group, keys in list(made.groups.items()):
        if tried(lambda: admin.delete_group(group, keys)):  # noqa: B023 - called at once
            del made.groups[group]
    known = {name: found for name, found in made.topics.items() if found is not None}
    if tried(lambda: admin.delete_topics(known)):
        for name in known:
            del made.topics[name]
    for name in list(made.topics):
        if not tried(lambda: _nothing_of(admin, name)):  # noqa: B023 - called at once
            continue
        del made.topics[name]
    journal.note()
    return said


def _nothing_of(admin: ExistingAdmin, name: str) -> None:
    """A topic of which it was never heard whether it was made: one that is there may be anybody's."""
    if admin.ids([name]):
        raise LabError(
            f"topic {name} may be of this run, or of somebody else: kaput was ended before it was told. "
            f"To delete it: kafka-topics --delete --topic {name}"
        )


def _named(journal: Journal) -> str:
    made = journal.made
    parts = [f"topic {name}" for name in made.topics] + [f"group {name}" for name in made.groups]
    return ", ".join(parts) or "nothing"
