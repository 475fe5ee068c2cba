"""What a store of kept messages is: a kept message, the methods of a store, chains of stores, and errors.

A store is a file in stores/.
"""

from __future__ import annotations

import json
import re
import secrets
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any, ClassVar, Literal, Protocol

from pydantic import BaseModel, ConfigDict, ValidationError

from kaput.errors import LabError, UsageError

PAGE = 500
_PURGED = "purged:"


class StoreError(LabError):
    """A store is down, full or damaged. Confirmed records are not lost."""


class Refused(StoreError, BufferError):
    """`produce` did not accept the message: it is neither sent nor kept, and the caller still has it."""


class NotAStore(UsageError):
    """There is nothing at a path, or something else than a store."""


class MessageStore(Protocol):
    """Keeps records and a few notes. Raises StoreError; thread-safe. `name`: without passwords."""

    name: str

    def put(self, records: Sequence[KeptMessage]) -> None:
        """Keeps records durably; a record with a known id replaces the old one."""

    def read(self, after: str = "", limit: int = PAGE, topic: str | None = None) -> list[KeptMessage]:
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


class NamedStore(MessageStore, Protocol):
    """A store of stores/: what its name looks like, and how it is opened by name."""

    SCHEMES: ClassVar[tuple[str, ...]]  # what precedes the first colon
    FORM: ClassVar[str]  # as errors show it

    @classmethod
    def from_url(cls, url: str) -> NamedStore:
        """Opens an existing store. Raises NotAStore, UsageError."""


@contextmanager
def store_errors(
    store: MessageStore, errors: type[Exception] | tuple[type[Exception], ...]
) -> Iterator[None]:
    """Inside the block, turns these errors of a client library into StoreError with the store's name."""
    try:
        yield
    except errors as error:
        # Drivers add their settings, and what they know of every server.
        why = re.split(r" \((?:configured timeouts|HTTPConnection)|, Timeout: | caused by: ", str(error))[0]
        down = re.search("refused|timed out|establish|resol", str(error))
        hint = "; check that it runs there, and that this machine may connect to it" if down else ""
        raise StoreError(f"{store.name}: {why[:300]}{hint}") from None


def records_of(store: MessageStore, topic: str | None = None) -> Iterator[KeptMessage]:
    """All records of a store, page by page."""
    after = ""
    while page := store.read(after, PAGE, topic):
        yield from page
        after = page[-1].id


def count(store: MessageStore, topic: str | None = None) -> int:
    counts = store.counts()
    return sum(counts.values()) if topic is None else counts.get(topic, 0)


def driver(module: str, package: str, what: str) -> Any:
    """Imports a database's client. Raises UsageError naming the package to install: `redis>=5`."""
    try:
        return import_module(module)
    except ImportError:
        raise UsageError(f"{what} needs the package {package}: pip install '{package}'") from None


def purge(store: MessageStore, topic: str | None = None, before_ms: int | None = None) -> int:
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


def purged(store: MessageStore) -> int:
    """The number of records ever purged."""
    return sum(int(text) for name, text in store.notes().items() if name.startswith(_PURGED))


Headers = tuple[tuple[str, bytes | None], ...]


class KeptMessage(BaseModel):
    """A kept message; bytes are base64 in JSON."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_bytes="base64", val_json_bytes="base64")

    version: Literal[1] = 1
    id: str  # sorts in the order of `produce` calls, for each producer
    topic: str
    partition: int | None = None  # its partition, if known
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int
    error: str | None = None  # why Kafka did not accept it; None: no report so far
    tries: int = 0  # failed attempts
    in_doubt: bool = False  # Kafka may have it anyway: a replay may store it twice
    sending_until_ms: int = 0  # spool-first: until then its producer may still be sending it
    kept_ms: int

    def to_json(self) -> str:
        return self.model_dump_json()

    @classmethod
    def from_json(cls, text: str | bytes, where: str) -> KeptMessage:
        """Parses a record. Raises StoreError naming `where`, also for an unknown version."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise _invalid_record(error, where) from None

    @classmethod
    def from_document(cls, document: Mapping[str, Any], where: str) -> KeptMessage:
        """The same from a parsed JSON object."""
        return cls.from_json(json.dumps(document), where)


def _invalid_record(error: ValidationError, where: str) -> StoreError:
    first = error.errors()[0]
    field = ".".join(map(str, first["loc"])) or "record"
    return StoreError(f"{where}: not a record of version 1: {field}: {first['msg']}")


def as_bytes(text: bytes | str | None) -> bytes | None:
    """Encodes text as confluent-kafka does."""
    return text.encode() if isinstance(text, str) else text


def header_pairs(given: Mapping[str, Any] | Iterable[tuple[str, Any]] | None) -> Headers:
    """Headers in any form that `produce` takes."""
    pairs = given.items() if isinstance(given, Mapping) else given or ()
    return tuple((name, as_bytes(value)) for name, value in pairs)


def session_id() -> str:
    """The first half of a producer's record ids: unique, and sorted by time."""
    return f"{time.time_ns():016x}{secrets.token_hex(4)}"


def now_ms() -> int:
    return time.time_ns() // 1_000_000


_QUICK_S = 0.1


class StoreChain:
    """One or more stores, and which of them has each spooled record."""

    def __init__(self, stores: Sequence[MessageStore]) -> None:
        self.stores = stores
        self.spooled: dict[str, MessageStore] = {}
        self._uncertain: dict[str, set[str]] = defaultdict(set)
        self._backs_off_until: dict[str, float] = {}

    def put(self, records: Sequence[KeptMessage]) -> str:
        """Puts records into the first store that accepts all; returns its name. Raises StoreError."""
        for store in self.stores:
            if store is not self.stores[-1] and self._is_backing_off(store):
                continue
            began = time.monotonic()
            try:
                store.put(records)
            except StoreError:
                self._back_off(store, time.monotonic() - began)
                self._uncertain[store.name].update(record.id for record in records)
                if store is self.stores[-1]:
                    raise
            else:
                self._uncertain[store.name].difference_update(record.id for record in records)
                break
        return store.name

    def remove_uncertain(self, at_once: bool = False) -> None:
        """Removes records that a store may have although its `put` failed and that it should not have."""
        for store in self.stores:
            ids = self._uncertain[store.name]
            if ids and (at_once or not self._is_backing_off(store)):
                began = time.monotonic()
                try:
                    store.remove(list(ids))
                    ids.clear()
                except StoreError:
                    self._back_off(store, time.monotonic() - began)

    def _back_off(self, store: MessageStore, took_s: float) -> None:
        """Skips a store for a while: a server that is down may take seconds to fail, while producers wait."""
        if took_s > _QUICK_S:
            self._backs_off_until[store.name] = time.monotonic() + took_s

    def _is_backing_off(self, store: MessageStore) -> bool:
        return time.monotonic() < self._backs_off_until.get(store.name, 0.0)

    def spool(self, record: KeptMessage) -> None:
        """Stores a record that is about to be sent. Raises StoreError."""
        name = self.put([record])
        self.spooled[record.id] = next(store for store in self.stores if store.name == name)

    def keep_spooled(self, record: KeptMessage) -> str:
        """Adds to a spooled record why it stays in its store; returns the store's name."""
        store = self.spooled.pop(record.id)
        with suppress(StoreError):  # the record is in the store either way
            store.put([record])
        return store.name

    def remove_spooled(self, ids: Sequence[str]) -> None:
        """Removes acknowledged records. Raises StoreError; can be called again then."""
        for store in self.stores:
            if here := [one for one in ids if self.spooled.get(one) is store]:
                store.remove(here)
                for one in here:
                    del self.spooled[one]

    def is_empty(self) -> bool:
        """Whether nothing but spooled records is kept; False if a store cannot tell."""
        kept = 0
        for store in self.stores:
            if self._is_backing_off(store):
                return False
            began = time.monotonic()
            try:
                kept += count(store)
            except StoreError:
                self._back_off(store, time.monotonic() - began)
                return False
        return kept <= len(self.spooled)
