"""kaput.keep: keeps the messages that Kafka did not accept, and sends them again (docs/KEEP.md).

    from kaput import keep
    producer = keep.Producer({"bootstrap.servers": "..."}, store=keep.SQLite("kept.db"))

Usable on its own: loads nothing else of kaput, and a store's client library only for that store.
"""

from kaput.clients.keep import stores
from kaput.clients.keep.deliveries import ProducerCounts
from kaput.clients.keep.producer import Producer
from kaput.clients.keep.replaying import Replayed, replay
from kaput.clients.keep.store import KeptMessage, MessageStore, Refused, StoreError
from kaput.clients.keep.stores import *  # noqa: F403

__all__ = [
    "KeptMessage", "MessageStore", "Producer", "ProducerCounts", "Refused", "Replayed", "StoreError",
    "replay",
]  # fmt: skip
__all__ += stores.__all__
