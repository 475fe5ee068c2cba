"""Clients that count for `kaput watch --audit`: confluent-kafka's own, which also report how many messages
were acknowledged or polled, per topic and ten seconds of message time. Use them with one line:

    from kaput.audit import Consumer, Producer

`report.py`: the format of reports; `counts.py`, `clients.py`: counting. Not here: comparing counts
(analysis/streaming/audit.py). Imports nothing else of kaput.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kaput.audit.clients import Consumer, Producer

__all__ = ["Consumer", "Producer"]


def __getattr__(name: str) -> Any:
    # Imported on first use: programs that only read reports need no Kafka client.
    if name in __all__:
        return getattr(import_module("kaput.audit.clients"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
