"""kaput.keep: keeps the messages that Kafka did not accept, and sends them again (docs/KEEP.md).

    from kaput import keep
    producer = keep.Producer({"bootstrap.servers": "..."}, store=keep.SQLite("kept.db"))

Usable on its own: loads nothing else of kaput, and a store's client library only for that store.
"""

# Without __all__: type checkers then also export what the list of stores does.
from kaput.clients.keep.deliveries import ProducerCounts as ProducerCounts
from kaput.clients.keep.producer import Producer as Producer
from kaput.clients.keep.replaying import Replayed as Replayed
from kaput.clients.keep.replaying import replay as replay
from kaput.clients.keep.store import KeptMessage as KeptMessage
from kaput.clients.keep.store import MessageStore as MessageStore
from kaput.clients.keep.store import Refused as Refused
from kaput.clients.keep.store import StoreError as StoreError
from kaput.clients.keep.stores import *  # noqa: F403
