"""kaput.keep: keeps the messages that Kafka did not accept, and sends them again (docs/KEEP.md).

    from kaput import keep
    producer = keep.Producer({"bootstrap.servers": "..."}, store=keep.SQLite("kept.db"))

Usable on its own: loads nothing else of kaput, and a store's client library only for that store.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kaput.clients.keep.counts import Counts
    from kaput.clients.keep.failure_log import FailureLog
    from kaput.clients.keep.mongodb import MongoDB
    from kaput.clients.keep.producer import Producer
    from kaput.clients.keep.record import Record
    from kaput.clients.keep.replaying import Replayed, replay
    from kaput.clients.keep.search_engines import Elasticsearch, OpenSearch
    from kaput.clients.keep.sqlite import SQLite
    from kaput.clients.keep.store import Refused, Store, StoreError
    from kaput.clients.keep.urls import open_store

_HOMES = {
    "counts": ("Counts",), "failure_log": ("FailureLog",), "mongodb": ("MongoDB",), "sqlite": ("SQLite",),
    "producer": ("Producer",), "record": ("Record",), "replaying": ("Replayed", "replay"),
    "search_engines": ("Elasticsearch", "OpenSearch"), "store": ("Refused", "Store", "StoreError"),
    "urls": ("open_store",),
}  # fmt: skip
__all__ = [
    "Counts", "Elasticsearch", "FailureLog", "MongoDB", "OpenSearch", "Producer", "Record", "Refused",
    "Replayed", "SQLite", "Store", "StoreError", "open_store", "replay",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"kaput.clients.keep.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
