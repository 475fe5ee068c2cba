"""What each client process does once with its client: memory, log and version; authorization; counts of
requests; what a call of the client returns or raises.

librdkafka treats an authorization error as transient, and retries forever, or until its own timeout. So
producers check before their first send, members at every error they get: the user gets a sentence with
principal, operation and resource, and the retries end.
"""

from __future__ import annotations

import gc
import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, Message

from kaput.core import TopicPartition
from kaput.evidence.recorder import Recorder
from kaput.workload.client_spec import NotAuthorizedError, ProducerSpec, notify

_YOUNG = 100_000


def text_of(error: Any) -> str:
    """A KafkaError as the evidence has it: NAME: what librdkafka says of it. A fatal error has no name of its
    own, but its text begins with that of the error behind it: FENCED_INSTANCE_ID.
    """
    text = error.str()
    if error.code() == KafkaError._FATAL:
        text = text.removeprefix("Fatal error: ")
        causes = map(KafkaError, range(-200, 200))
        error = next((cause for cause in causes if text.startswith(f"{cause.str()}: ")), error)
    return f"{error.name()}: {text}"


def committed_offsets(
    client: Any, places: Sequence[confluent_kafka.TopicPartition], timeout_s: float
) -> list[confluent_kafka.TopicPartition]:
    """The group's, below 0 where it has none. Raises KafkaException, also at an error of one partition."""
    offsets: list[confluent_kafka.TopicPartition] = client.committed(list(places), timeout=timeout_s)
    for error in filter(None, (at.error for at in offsets)):
        raise KafkaException(error)
    return offsets


def is_fatal(error: KafkaError) -> bool:
    """Whether the client ends at it. Of some librdkafka says so by their code alone."""
    return bool(error.fatal()) or error.code() == KafkaError._FATAL


def tune_garbage_collection() -> None:
    """Excludes already loaded objects from collection, and collects only after many new ones. A client holds
    hundreds of messages at a time, and reference counting frees them. With Python's default threshold of 700
    new objects the collector would scan them repeatedly: a tenth of the loop's time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG)


def notify_ready(at_ns: int | None = None) -> None:
    """Reports `ready`, and the library's actual version. `at_ns`: when a member joined its group."""
    library = f"confluent-kafka {confluent_kafka.__version__}, librdkafka {confluent_kafka.libversion()[0]}"
    notify("ready", library=library, at_ns=at_ns)


def quiet_logger() -> logging.Logger:
    """Discards librdkafka's log: a line for each refused connection, thousands of them in a failover."""
    logger = logging.getLogger("kaput.librdkafka")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger


def partition_of(message: Message) -> TopicPartition:
    """The partition that a message, or an error, was read from."""
    topic, partition = message.topic(), message.partition()
    assert topic is not None and partition is not None
    return TopicPartition(topic, partition)


def offset_of(message: Message) -> int:
    offset = message.offset()
    assert offset is not None
    return offset


CODES = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
_AUTHENTICATION = KafkaError._AUTHENTICATION
_POLL_S = 2.0  # how often to check for failed authentication


class AuthorizationErrors:
    """Checks one client's errors; `settings` are librdkafka's."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._who = f"User:{settings.get('sasl.username', 'ANONYMOUS')}"
        self._authentication_error: str | None = None

    def on_error(self, error: KafkaError) -> None:
        """librdkafka's error_cb: errors that belong to no message."""
        if error.code() == _AUTHENTICATION:
            self._authentication_error = error.str()

    def describe_topic(self, client: Any, topic: str, timeout_s: float) -> Any:
        """The topic's metadata. Raises NotAuthorizedError; KafkaException after `timeout_s`."""
        limit = time.monotonic() + timeout_s
        while True:
            try:
                known = client.list_topics(topic, timeout=_POLL_S).topics[topic]
            except KafkaException:
                client.poll(0)
                if self._authentication_error is not None:
                    raise NotAuthorizedError(
                        f"{self._who} cannot authenticate: {self._authentication_error}"
                    ) from None
                if time.monotonic() >= limit:
                    raise
                time.sleep(0.05)
            else:
                if known.error is not None:
                    self.check(known.error, "Describe", f"topic {topic}")
                return known

    def check(self, error: KafkaError, operation: str, resource: str) -> None:
        """Raises NotAuthorizedError if the error is an authorization error for that operation."""
        if error.code() in CODES:
            raise NotAuthorizedError(self.sentence(error, operation, resource))

    def of_member(self, error: KafkaError, group: str, topics: list[str]) -> str | None:
        """A sentence about a group member's authorization error; None for any other error."""
        match error.code():
            case KafkaError.GROUP_AUTHORIZATION_FAILED:
                return self.sentence(error, "Read", f"group {group}")
            case KafkaError.TOPIC_AUTHORIZATION_FAILED:
                return self.sentence(error, "Read", f"topic {', '.join(topics)}")
            case KafkaError.CLUSTER_AUTHORIZATION_FAILED:
                return self.sentence(error, "do this with", "the cluster")
        return None

    def sentence(self, error: KafkaError, operation: str, resource: str) -> str:
        """Principal, operation and resource in Kafka's words."""
        return f"{self._who} is not allowed to {operation} {resource} ({error.name()})"


METADATA_REQUESTS = "metadata_requests"  # of one producer since it started
INTERVAL = "statistics.interval.ms"


class RequestCounts:
    """Counts for one producer; does nothing unless its settings enable statistics."""

    def __init__(self, spec: ProducerSpec, settings: dict[str, Any]) -> None:
        self._labels = {"producer": str(spec.producer)}
        wanted = str(settings.get(INTERVAL, "0")) != "0"
        folder = Path(spec.folder)
        self._recorder = Recorder(folder, "samples", spec.writer, spec.cluster) if wanted else None

    def settings(self) -> dict[str, Callable[[str], None]]:
        return {} if self._recorder is None else {"stats_cb": self._sample}

    def _sample(self, statistics: str) -> None:
        assert self._recorder is not None
        brokers = json.loads(statistics)["brokers"].values()
        count = sum(broker.get("req", {}).get("Metadata", 0) for broker in brokers)
        self._recorder.row(
            at_ns=time.time_ns(),
            source="librdkafka",
            name=METADATA_REQUESTS,
            labels=self._labels,
            value=float(count),
        )

    def close(self) -> None:
        if self._recorder is not None:
            self._recorder.close()
