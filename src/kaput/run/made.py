"""What a run has made, and broken, in a cluster that was there before: kept in its folder until it is undone.

RUN_DIR/made.json is written before anything is made and after it was undone, so that whatever ends kaput,
`kaput cleanup RUN_DIR` knows what is left (cleaning.py). Not here: the making and the undoing.
"""

from __future__ import annotations

import threading
import uuid
from pathlib import Path

from pydantic import BaseModel, ValidationError

from kaput.errors import EvidenceError
from kaput.evidence.folder import replace_text

NAME = "made.json"


class Owed(BaseModel):
    """The heal of one step: the words of each command line; none where the fault ends by itself."""

    step: str
    brokers: list[int]
    heals: list[list[str]] = []


class Made(BaseModel):
    """`topics`: by name the id, None where kaput was ended before it was told one. `groups`: by id the
    settings that it got.
    """

    bootstrap_servers: str
    cluster_id: str | None = None
    command_config: str | None = None
    topics: dict[str, uuid.UUID | None] = {}
    groups: dict[str, list[str]] = {}
    owed: list[Owed] = []

    @property
    def nothing(self) -> bool:
        """Whether nothing is left."""
        return not (self.topics or self.groups or self.owed)


class Journal:
    """The file, kept up to date. For several threads."""

    def __init__(self, folder: Path, made: Made) -> None:
        self._path, self.made = folder / NAME, made
        self._lock = threading.Lock()

    def note(self) -> None:
        """What has changed is on disk when it returns."""
        with self._lock:
            self._write()

    def owe(self, owed: Owed) -> None:
        """A step is about to break something."""
        with self._lock:
            self.made.owed.append(owed)
            self._write()

    def settle(self, step: str) -> None:
        """It is healed."""
        with self._lock:
            self.made.owed = [each for each in self.made.owed if each.step != step]
            self._write()

    def _write(self) -> None:
        replace_text(self._path, self.made.model_dump_json(indent=2) + "\n")


def read_made(folder: Path) -> Made:
    """What is left of a run. Raises EvidenceError naming the file."""
    path = folder / NAME
    try:
        return Made.model_validate_json(path.read_bytes())
    except OSError as error:
        raise EvidenceError(
            f"{path}: cannot be read ({error.strerror}); "
            "is this the folder of a run with --bootstrap-servers?"
        ) from None
    except ValidationError as error:
        raise EvidenceError(f"{path}: not as kaput writes it: {error.errors()[0]['msg']}") from None
