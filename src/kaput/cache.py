"""The user's cache: where jars, archives and templates are kept, and how several kaputs share it."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs

from kaput.errors import LabError

_POLL_S = 0.1


def cache_dir(name: str) -> Path:
    """A directory of the cache, made if need be. Raises LabError when it cannot be."""
    path = Path(platformdirs.user_cache_dir("kaput")) / name
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LabError(f"the cache {path} cannot be made ({error.strerror}); set XDG_CACHE_HOME") from None
    return path


@contextmanager
def exclusive(path: Path, timeout_s: float) -> Iterator[None]:
    """Only one process at a time is inside for the same lock file. Raises LabError after `timeout_s`."""
    limit = time.monotonic() + timeout_s
    with path.open("a") as file:
        # The lock is the open file's: it goes with the process, however that ends.
        while not _try_lock(file.fileno()):
            if time.monotonic() > limit:
                raise LabError(f"another kaput has held {path} for {timeout_s:.0f} s")
            time.sleep(_POLL_S)
        yield


def _try_lock(number: int) -> bool:
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
