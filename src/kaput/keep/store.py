"""What a store can do, and the errors of this package. Each store is one file; urls.py opens them by name."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from kaput.errors import LabError, UsageError

if TYPE_CHECKING:
    from kaput.keep.record import Record

PAGE = 500
_PURGED = "purged:"


class StoreError(LabError):
    """A store is down, full or damaged; nothing that it had confirmed is lost by that."""


class Refused(StoreError, BufferError):
    """`produce` did not take the message: it is neither sent nor kept, and remains the caller's."""


class Store(Protocol):
    """Keeps records and a few notes. Every method raises StoreError; safe to use from several threads.

    `name` is how messages call the store, without passwords.
    """

    name: str

    def put(self, records: Sequence[Record]) -> None:
        """Keeps records, durably when it returns; one with a known id replaces the old one."""

    def read(self, after: str = "", limit: int = PAGE, topic: str | None = None) -> list[Record]:
        """The next records, in the order of their ids."""

    def remove(self, ids: Sequence[str], note: str | None = None) -> None:
        """Removes records, and then a note; unknown ones are no error."""

    def counts(self) -> dict[str, int]:
        """The number of records of each topic that has any."""

    def note(self, name: str, text: str) -> str:
        """Writes a note, unless there is one of that name; durably. Returns its text as it now is."""

    def notes(self) -> Mapping[str, str]:
        """All notes."""

    def close(self) -> None:
        """Ends the connection."""


@contextmanager
def store_errors(store: Store, errors: type[Exception] | tuple[type[Exception], ...]) -> Iterator[None]:
    """Within, these errors of a client library become StoreError, with the store's name."""
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
    """A database's own client. Raises UsageError, naming the package to install."""
    try:
        return import_module(module)
    except ImportError:
        raise UsageError(f"{what} needs the package {package}: pip install '{package}'") from None


def purge(store: Store, topic: str | None = None, before_ms: int | None = None) -> int:
    """Deletes kept records (before_ms: those kept before then), and notes how many, for `purged`."""
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
    """How many records were ever purged."""
    return sum(int(text) for name, text in store.notes().items() if name.startswith(_PURGED))
