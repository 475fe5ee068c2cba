"""A temporary directory, created when first needed and deleted at the end.

For evidence from a URL, and for files that cannot be written to their run folder.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any


class Scratch:
    """A context manager. `where`: the parent directory; None: the system's temporary directory."""

    def __init__(self, where: Path | None = None) -> None:
        self.where = where
        self._stack = ExitStack()
        self._made: Path | None = None
        self._number = 0

    @property
    def used(self) -> bool:
        """Whether the directory was created."""
        return self._made is not None

    def directory(self) -> Path:
        """A new, empty subdirectory. Raises OSError if it cannot be created."""
        from kaput.processes.ownership import Owner

        if self._made is None:
            owner = self._stack.enter_context(Owner())
            self._made = owner.own_path(Path(tempfile.mkdtemp(prefix="kaput-scratch-", dir=self.where)))
        self._number += 1
        path = self._made / str(self._number)
        path.mkdir()
        return path

    def __enter__(self) -> Scratch:
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)
