"""What a client process is told, as one JSON document: plain values, quick to import and to read.

The other direction is one JSON object a line on the client's stdout (kinds in `Said`).
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from kaput.cluster.access import Access
from kaput.scenario.vocabulary import GroupType

# ready: may be told to go. threshold: the N-th attempt of all was made. sent: every attempt is made.
# done: every outcome is known and recorded. trouble: the client cannot go on.
# owns: a member's partitions from now on. pace: how long its records take. finding: what is wrong with a
# client that is somebody else's program; the run goes on. body: the process that really sends or reads.
Said = Literal["ready", "threshold", "sent", "done", "trouble", "finding", "owns", "pace", "body"]
Ask = Literal["accepting", "releasing", "rejecting"]  # as share_events has them
# What a member is told on its stdin, one JSON object a line. pace: each record takes `ms`. tell: say `pace`.
Told = Literal["pace", "tell"]


@dataclass(frozen=True)
class ProducerOrder:
    """One producer's task. `rate` 0 is as fast as it goes; one of `messages` and `duration_ms` is set;
    `partitions` 0: their number changes; `transactions`: scenario/transactions.py; `text`: whether payloads
    are text (evidence/text.py); `access`: settings_of.
    """

    folder: str
    run_id: str
    producer: int
    topic: str
    partitions: int
    messages: int | None
    duration_ms: int | None
    rate: float
    payload_bytes: int
    key: str | int
    round_robin: bool
    retries_disabled: bool
    config: dict[str, Any]
    counters: str
    producers: int
    thresholds: list[int]
    transactions: dict[str, Any] | None = None
    text: bool = False
    access: str | None = None

    @property
    def chooses(self) -> bool:
        """Whether the producer itself says which partition: message `seq` goes to `seq % partitions`."""
        return self.round_robin or self.partitions == 1


@dataclass(frozen=True, kw_only=True)
class CommandProducerOrder(ProducerOrder):
    """The task of one that is somebody else's program; `client_config` is handed through to it."""

    command: list[str]
    patience_ms: int
    acks: str
    idempotence: bool
    client_config: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class JavaProducerOrder(ProducerOrder):
    """The task of one that is Kafka's VerifiableProducer; `command` starts it."""

    command: list[str]
    patience_ms: int


@dataclass(frozen=True)
class MemberOrder:
    """One group member's task. `commit_every` 0 is by time; what the words mean is in scenario/groups.py."""

    folder: str
    run_id: str
    group: str
    member: str
    topics: list[str]
    config: dict[str, Any]
    type: GroupType = "classic"
    commit: Literal["after", "before", "auto"] = "after"
    commit_sync: bool = False
    commit_every: int = 0
    processing_ms: int = 0
    access: str | None = None

    @property
    def writer(self) -> str:
        """What the member's evidence files are called: a name of its own, whatever its group is called."""
        return file_name(f"{self.group}-{self.member}")


@dataclass(frozen=True, kw_only=True)
class CommandMemberOrder(MemberOrder):
    """The task of one that is somebody else's program; `client_config` is handed through to it."""

    command: list[str]
    isolation: str
    client_config: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class JavaMemberOrder(MemberOrder):
    """The task of one that is Kafka's VerifiableConsumer, or VerifiableShareConsumer; `command` starts it."""

    command: list[str]


@dataclass(frozen=True, kw_only=True)
class PipeOrder(MemberOrder):
    """The task of a member of a pipe. `outputs`: the ProducerOrder of what it makes; `size`: how many records
    a transaction has at most.
    """

    outputs: dict[str, Any]
    size: int


@dataclass(frozen=True)
class ShareMemberOrder(MemberOrder):
    """A share group member's task. `release_every` and `reject_every`: None for never."""

    explicit: bool = False
    release_every: int | None = None
    reject_every: int | None = None

    def ask(self, offset: int | None, delivery_count: int | None) -> Ask:
        """What is asked for a record: the same of every member, whoever is handed it.

        What is released is accepted when it comes again: all that is drained has been accepted or rejected.
        """
        assert offset is not None
        if self.reject_every is not None and (offset + 1) % self.reject_every == 0:
            return "rejecting"
        if delivery_count == 1 and self.release_every is not None and (offset + 1) % self.release_every == 0:
            return "releasing"
        return "accepting"


_PLAIN = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")


def file_name(text: str) -> str:
    """`text` where any file may be called so; else what is left of it, and a hash that tells it from others.

    Group ids may be anything: longer than names of files, with slashes, beginning with a dot or an underscore
    (which readers of Parquet pass over), or different in their capitals alone. A plain name has no `~`.
    """
    if _PLAIN.fullmatch(text):
        return text
    kept = re.sub(r"[^A-Za-z0-9._-]+", "-", text).lstrip("._-")[:60]
    return f"{kept or 'x'}~{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"


def settings_of(order: ProducerOrder | MemberOrder) -> dict[str, Any]:
    """All settings of librdkafka. What is secret among them stands in the file `access` alone (Java's
    properties), and not in the order, which stays in the run folder. Raises UsageError.
    """
    given = {} if order.access is None else Access.read(Path(order.access)).librdkafka()
    return {**given, **order.config}


def properties_of(order: ProducerOrder | MemberOrder) -> dict[str, str]:
    """What somebody else's program is told beside its settings: the file by which it is let in, if any."""
    return {} if order.access is None else {"client_properties": order.access}


def write_order(path: Path, order: ProducerOrder | MemberOrder) -> None:
    """The order as a JSON file."""
    path.write_text(json.dumps(asdict(order)))


_saying = threading.Lock()


def say(kind: Said, **more: Any) -> None:
    """One line to the parent, at once; from any thread."""
    with _saying:
        sys.stdout.write(json.dumps({"kind": kind, **more}) + "\n")
        sys.stdout.flush()
