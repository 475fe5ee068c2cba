"""One-time setup of each client process: garbage collection, librdkafka's log, and its version."""

from __future__ import annotations

import gc
import logging

import confluent_kafka

from kaput.workload.client_spec import notify

_YOUNG = 100_000


def tune_garbage_collection() -> None:
    """Excludes already loaded objects from collection, and collects only after many new ones.

    A client holds hundreds of messages at a time, and reference counting frees them. With Python's default
    threshold of 700 new objects the collector would scan them repeatedly: a tenth of the loop's time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG)


def notify_ready() -> None:
    """Reports `ready`, and the library's actual version."""
    library = f"confluent-kafka {confluent_kafka.__version__}, librdkafka {confluent_kafka.libversion()[0]}"
    notify("ready", library=library)


def quiet_logger() -> logging.Logger:
    """Discards librdkafka's log: a line for each refused connection, thousands of them in a failover."""
    logger = logging.getLogger("kaput.librdkafka")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger
