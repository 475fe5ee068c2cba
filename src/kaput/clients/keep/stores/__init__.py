"""The stores of kaput.keep: a file for each kind, listed here, and opened by name (docs/KEEP.md)."""

from __future__ import annotations

from pathlib import Path

from kaput.clients.keep.store import MessageStore, NamedStore, NotAStore
from kaput.clients.keep.stores.failure_log import FailureLog
from kaput.clients.keep.stores.mongodb import MongoDB
from kaput.clients.keep.stores.search_engines import Elasticsearch, OpenSearch
from kaput.clients.keep.stores.sqlite import SQLite
from kaput.errors import UsageError

STORES: tuple[type[NamedStore], ...] = (SQLite, FailureLog, MongoDB, Elasticsearch, OpenSearch)
__all__ = ["Elasticsearch", "FailureLog", "MongoDB", "OpenSearch", "SQLite", "open_store"]


def open_store(url: str) -> MessageStore:
    """Opens an existing store: `sqlite:kept.db`, or its path. Raises UsageError if there is none."""
    scheme, colon, _ = url.partition(":")
    by_path = FailureLog if Path(url).is_dir() else SQLite
    kind = next((one for one in STORES if colon and scheme in one.SCHEMES), by_path)
    try:
        return kind.from_url(url)
    except NotAStore as error:
        *forms, last = (one.FORM for one in STORES)
        raise UsageError(f"{error}; a store is {', '.join(forms)} or {last}") from None
