"""The failure log: a directory of files with JSON lines, each synced to disk (fsync) before it counts.

    {"put": RECORD}    {"done": [ID, ...], "note": NAME}    {"note": NAME, "text": TEXT}

Each call holds the directory's lock, so a last line without a newline is torn: a process died while writing
it, before confirming it. It is reported (`damage`), its file stays, and the next line goes to a new file, as
after `rotate_bytes`. When nothing is kept any more, files without damage are deleted.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from kaput.clients.keep.store import PAGE, KeptMessage, NotAStore, StoreError

_ROTATE_BYTES = 64 << 20


class _LinePlace(NamedTuple):
    topic: str
    path: Path
    offset: int
    size: int


class FailureLog:
    """Records in a directory. Memory: only each kept record's position."""

    SCHEMES: ClassVar[tuple[str, ...]] = ("log",)
    FORM: ClassVar[str] = "log:DIRECTORY"

    @classmethod
    def from_url(cls, url: str) -> FailureLog:
        """Opens an existing directory. Raises NotAStore."""
        path = Path(url.removeprefix("log:"))
        if not path.is_dir():
            raise NotAStore(f"{path} is not a directory")
        return cls(path)

    def __init__(self, directory: str | Path, rotate_bytes: int = _ROTATE_BYTES) -> None:
        self.name = f"log:{directory}"
        self._directory, self._rotate_bytes = Path(directory), rotate_bytes
        self._thread = threading.RLock()
        self._forget()
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{self.name}: {error.strerror}") from None

    def put(self, records: Sequence[KeptMessage]) -> None:
        """Writes all records at once."""
        with self._locked():
            self._append([f'{{"put":{record.to_json()}}}' for record in records])

    def read(self, after: str = "", limit: int = PAGE, topic: str | None = None) -> list[KeptMessage]:
        with self._locked():
            ids = (one for one, at in self._places.items() if one > after and topic in (None, at.topic))
            return [self._record(self._places[one]) for one in sorted(ids)[:limit]]

    def remove(self, ids: Sequence[str], note: str | None = None) -> None:
        """Writes one line for all of them."""
        with self._locked():
            self._append([json.dumps({"done": list(ids), "note": note})])
            if not self._places:
                self._compact()

    def counts(self) -> dict[str, int]:
        with self._locked():
            return dict(Counter(at.topic for at in self._places.values()))

    def note(self, name: str, text: str) -> str:
        with self._locked():
            if name not in self._notes:
                self._append([json.dumps({"note": name, "text": text})])
            return self._notes[name]

    def notes(self) -> dict[str, str]:
        with self._locked():
            return dict(self._notes)

    @property
    def damage(self) -> list[str]:
        """A sentence for each unreadable line and each torn end."""
        with self._locked():
            return [sentence for sentences in self._damage.values() for sentence in sentences]

    def close(self) -> None:
        """Does nothing: no file is open between calls."""

    def _forget(self) -> None:
        self._read_bytes: dict[Path, int] = {}
        self._damage: dict[Path, list[str]] = {}
        self._places: dict[str, _LinePlace] = {}
        self._notes: dict[str, str] = {}

    def _append(self, lines: Sequence[str]) -> None:
        """Writes all lines; after a failure, none of them is in the file."""
        path = max(self._read_bytes, default=None)
        if path is None or path in self._damage or self._read_bytes[path] >= self._rotate_bytes:
            path = self._directory / f"{time.time_ns():020d}.jsonl"
        is_new = not path.exists()
        with path.open("ab", buffering=0) as file:
            start, data = file.tell(), "".join(line + "\n" for line in lines).encode()
            try:
                while data:
                    data = data[file.write(data) or 0 :]
                os.fsync(file.fileno())
            except OSError:
                with suppress(OSError):  # else a torn end remains
                    file.truncate(start)
                raise
        if is_new:
            _sync_directory(self._directory)
        self._scan()

    def _compact(self) -> None:
        """Writes the notes to a new file, then deletes the others."""
        old = [path for path in self._read_bytes if path not in self._damage]
        lines = [json.dumps({"note": name, "text": text}) for name, text in self._notes.items()]
        self._read_bytes = {}
        self._append(lines)
        for path in old:
            path.unlink()
        self._forget()

    def _scan(self) -> None:
        """Reads lines appended since the last scan; everything if files were deleted since."""
        paths = sorted(self._directory.glob("*.jsonl"))
        if self._read_bytes.keys() - set(paths):
            self._forget()
        for path in paths:
            offset = self._read_bytes.get(path, 0)
            with path.open("rb") as file:
                file.seek(offset)
                for line in file:
                    if line.endswith(b"\n"):
                        self._apply(line, path, offset)
                        offset += len(line)
                    else:
                        why = "torn: a process ended while it wrote them, before they were confirmed"
                        self._report(path, f"{path}: the last {len(line)} bytes are {why}")
            self._read_bytes[path] = offset

    def _apply(self, line: bytes, path: Path, offset: int) -> None:
        try:
            entry: dict[str, Any] = json.loads(line)
            if "put" in entry:
                at = _LinePlace(str(entry["put"]["topic"]), path, offset, len(line))
                self._places[str(entry["put"]["id"])] = at
            elif "done" in entry:
                for one in entry["done"]:
                    self._places.pop(one, None)
                self._notes.pop(entry["note"], None)
            else:
                self._notes[str(entry["note"])] = str(entry["text"])
        except (ValueError, KeyError, TypeError):
            self._report(path, f"{path}: the line at byte {offset} is damaged: {line[:40]!r}")

    def _report(self, path: Path, sentence: str) -> None:
        if sentence not in self._damage.setdefault(path, []):
            self._damage[path].append(sentence)

    def _record(self, at: _LinePlace) -> KeptMessage:
        with at.path.open("rb") as file:
            file.seek(at.offset)
            line = file.read(at.size)
        return KeptMessage.from_json(line.strip()[len(b'{"put":') : -1], f"{at.path}, byte {at.offset}")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Holds the lock for one thread of one process, after reading what others wrote."""
        try:
            with self._thread, (self._directory / ".lock").open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                self._scan()
                yield
        except OSError as error:
            raise StoreError(f"{self.name}: {error.strerror}") from None


def _sync_directory(directory: Path) -> None:
    """Syncs a directory, so that a new file's name is on disk."""
    number = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
