"""The interface of a store, and this package's errors. Each store is a module; urls.py opens them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from kaput.errors import LabError, UsageError

if TYPE_CHECKING:
    from kaput.clients.keep.record import Record

PAGE = 500
_PURGED = "purged:"


class StoreError(LabError):
    """A store is down, full or damaged. Confirmed records are not lost."""


class Refused(StoreError, BufferError):
    """`produce` did not accept the message: it is neither sent nor kept, and the caller still has it."""


class Store(Protocol):
    """Keeps records and a few notes. Every method raises StoreError; thread-safe.

    `name`: the store's name in messages, without passwords.
    """

    name: str

    def put(self, records: Sequence[Record]) -> None:
        """Keeps records durably; a record with a known id replaces the old one."""

    def read(self, after: str = "", limit: int = PAGE, topic: str | None = None) -> list[Record]:
        """The next records, in the order of their ids."""

    def remove(self, ids: Sequence[str], note: str | None = None) -> None:
        """Removes records, then a note; missing ones are no error."""

    def counts(self) -> dict[str, int]:
        """The number of records by topic, without empty topics."""

    def note(self, name: str, text: str) -> str:
        """Durably writes a note, unless one of that name exists. Returns the current text."""

    def notes(self) -> Mapping[str, str]:
        """All notes."""

    def close(self) -> None:
        """Closes the connection."""


@contextmanager
def store_errors(store: Store, errors: type[Exception] | tuple[type[Exception], ...]) -> Iterator[None]:
    """Inside the block, turns these errors of a client library into StoreError with the store's name."""
    try:
        yield
    except errors as error:
        raise StoreError(f"{store.name}: {str(error)[:300]}") from None


def records_of(store: Store, topic: str | None = None) -> Iterator[Record]:
    """All records of a store, page by page."""
    after = ""
    while page := store.read(after, PAGE, topic):
        yield from page
        after = page[-1].id


def count(store: Store, topic: str | None = None) -> int:
    """The number of records."""
    counts = store.counts()
    return sum(counts.values()) if topic is None else counts.get(topic, 0)


def driver(module: str, package: str, what: str) -> Any:
    """Imports a database's client. Raises UsageError naming the package to install."""
    try:
        return import_module(module)
    except ImportError:
        raise UsageError(f"{what} needs the package {package}: pip install '{package}'") from None


def purge(store: Store, topic: str | None = None, before_ms: int | None = None) -> int:
    """Deletes records (`before_ms`: only those kept before then), and notes their number for `purged`."""
    gone, after = 0, ""
    while page := store.read(after, PAGE, topic):
        after = page[-1].id
        ids = [record.id for record in page if before_ms is None or record.kept_ms < before_ms]
        store.remove(ids)
        gone += len(ids)
    if gone:
        store.note(f"{_PURGED}{time.time_ns()}", str(gone))
    return gone


def purged(store: Store) -> int:
    """The number of records ever purged."""
    return sum(int(text) for name, text in store.notes().items() if name.startswith(_PURGED))
