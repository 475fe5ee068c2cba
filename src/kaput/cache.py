"""The user's cache: its directories, locks between processes, and clearing."""

from __future__ import annotations

import fcntl
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import platformdirs

from kaput.errors import LabError

# The directories of the cache. All contents are created again when needed.
CONTENTS: Mapping[str, str] = {
    "jars": "Kafka's jars",
    "locks": "lock files of Kafka versions that kaput does not come with",
    "cds": "archives of loaded classes, for quick starts of brokers",
    "storage": "templates of formatted log directories",
    "clients": "other versions of confluent-kafka",
    "stores": "OpenSearch, Elasticsearch and FerretDB",
    "settings": "names of Kafka's settings, and values that it takes",
    "charts": "the chart library of HTML reports",
}


def cache_root() -> Path:
    """The cache's path; creates nothing."""
    return Path(platformdirs.user_cache_dir("kaput"))


def cached_bytes(name: str) -> int:
    """The size of the files in a directory of the cache."""
    sizes = 0
    for path in (cache_root() / name).rglob("*"):
        with suppress(OSError):  # deleted meanwhile
            sizes += path.lstat().st_size if not path.is_dir() else 0
    return sizes


def clear(name: str) -> None:
    """Deletes a directory of the cache. Raises LabError if that fails."""
    path = cache_root() / name
    try:
        shutil.rmtree(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise LabError(f"cannot delete {error.filename or path}: {error.strerror}") from None


def cache_dir(name: str) -> Path:
    """A directory of the cache, created if missing. Raises LabError if that fails."""
    path = cache_root() / name
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LabError(f"the cache {path} cannot be created ({error.strerror}); set XDG_CACHE_HOME") from None
    return path


@contextmanager
def exclusive(path: Path, timeout_s: float) -> Iterator[None]:
    """Holds a lock file, so that one process at a time is in the block. Raises LabError after `timeout_s`."""
    limit = time.monotonic() + timeout_s
    with path.open("a") as file:
        # The lock belongs to the open file: it ends with the process, even if that is killed.
        while not _try_lock(file.fileno()):
            if time.monotonic() > limit:
                raise LabError(f"another kaput has held {path} for {timeout_s:.0f} s")
            time.sleep(0.1)
        yield


def _try_lock(number: int) -> bool:
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
