"""The journal of what a run created and broke in an existing cluster, kept until it is undone.

RUN_DIR/made.json is written before anything is created and after it is undone, so that `kaput undo RUN_DIR`
knows what is left however kaput ended (cleanup.py). Not here: creating and undoing.
"""

from __future__ import annotations

import threading
import uuid
from pathlib import Path
from typing import Annotated

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from kaput.errors import EvidenceError
from kaput.evidence.folder import replace_text

NAME = "made.json"


class PendingHeal(BaseModel):
    """The heal of one step: the arguments of each command line; none if the fault ends by itself."""

    step: str
    brokers: list[int]
    heals: list[list[str]] = []


class CreatedResources(BaseModel):
    """`topics`: ids by name, None until the creation is confirmed. `groups`: the names of the settings that
    were set, by group id.
    """

    model_config = ConfigDict(populate_by_name=True)

    bootstrap_servers: str
    cluster_id: str | None = None
    command_config: str | None = None
    topics: dict[str, uuid.UUID | None] = {}
    groups: dict[str, list[str]] = {}
    pending_heals: Annotated[
        list[PendingHeal],
        Field(validation_alias=AliasChoices("pending_heals", "owed")),  # `owed` in older run folders
    ] = []

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
        """Records that a step is healed."""
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
    except OSError as error:
        raise EvidenceError(
            f"{path}: cannot be read ({error.strerror}); "
            "is this the folder of a run with --bootstrap-servers?"
        ) from None
    except ValidationError as error:
        raise EvidenceError(f"{path}: malformed: {error.errors()[0]['msg']}") from None
