"""The block of producers and that of their transactions, with checks; and which partition keeps the state of
a transaction, or of a group: its leader is the coordinator.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema, model_validator

from kaput.scenario.block import Block, Found
from kaput.scenario.clients import check_client, check_reserved
from kaput.scenario.stores import OnFailure
from kaput.scenario.values import (
    UNIT_MS,
    Acknowledgements,
    Config,
    Count,
    DurationMs,
    OffsetMs,
    Positive,
    Rate,
    format_duration,
    share_of,
)
from kaput.scenario.vocabulary import KAFKAS_TIMEOUT_MS, Client


def _parse_share(value: Any) -> float:
    """0.1 for `10%`, 0 for 0. Raises ValueError."""
    share = Fraction(0) if value == 0 and not isinstance(value, bool) else share_of(str(value))
    if share is None or share > 1:
        raise ValueError(f"{value!r} is not a share; write for example 10%, or 0")
    return float(share)


ID_PREFIX = "kaput-producer"
Share = Annotated[
    float,
    BeforeValidator(_parse_share),
    Field(ge=0, le=1),
    PlainSerializer(lambda share: f"{round(share * 100, 6):g}%", return_type=str),
    WithJsonSchema({"type": ["string", "number"], "examples": ["10%", 0]}),
]


class Transactions(Block):
    """Messages are sent so many at a time; then the transaction is committed, or aborted."""

    size: Positive = 10
    """How many messages a transaction has; the last one of a producer may have fewer."""
    abort: Share = 0.0
    """Which share of the transactions is aborted on purpose, evenly spread: 10% is every tenth."""

    id_prefix: Annotated[str, Field(min_length=1)] = ID_PREFIX
    """What transactional ids begin with; the number of the producer follows."""

    def aborts(self, number: int) -> bool:
        """Whether transaction number `number`, from 0, is aborted on purpose."""
        share = Fraction(str(self.abort))  # as written: in floating point 7 % of 100 is more than 7
        return int((number + 1) * share) > int(number * share)


def transactional_id(producer: int, prefix: str = ID_PREFIX) -> str:
    return f"{prefix}-{producer}"


TRANSACTIONS = "__transaction_state"


def partition_of(name: str, count: int) -> int:
    """The partition, as Kafka computes it: Java's hash of the name, made positive, modulo the partitions."""
    value = 0
    units = name.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[at : at + 2], "big")) % 2**32
    signed = value - 2**32 if value >= 2**31 else value
    return (0 if signed == -(2**31) else abs(signed)) % count


# Client settings that kaput sets itself, and the scenario key that decides them (None: no key does).
_RESERVED = {
    "bootstrap.servers": None,
    "metadata.broker.list": None,
    "acks": "acks",
    "request.required.acks": "acks",
    "enable.idempotence": "idempotence",
    "partitioner": "partitioner",
    "transactional.id": "transactions",
}
_IN_FLIGHT = ("max.in.flight", "max.in.flight.requests.per.connection")
_TIMEOUT = "transaction.timeout.ms"
_LONGEST_TIMEOUT_MS = 900_000  # transaction.max.timeout.ms of brokers
_RETRIES = ("retries", "message.send.max.retries")
_MESSAGE_TIMEOUTS = ("message.timeout.ms", "delivery.timeout.ms")
# The settings of the delivery timeout, and their default in ms, by client.
_DELIVERY_TIMEOUTS: Mapping[str, tuple[tuple[str, ...], int]] = {
    "librdkafka": (_MESSAGE_TIMEOUTS, 300_000),
    "java": (("delivery.timeout.ms",), 120_000),
}
_KEEPS_TIMEOUT_MS = 30_000  # the default of kaput.clients.keep
MIN_PAYLOAD_BYTES = 45  # the size of the identity in every message: see workload/payload.py


class Producers(Block):
    """`count` producers of one kind; each sends `messages`, or for `duration`, at `rate` per second."""

    count: Count = 1
    """Number of producers of this kind."""
    per_process: Count = 1
    """How many of them share a process, each with a client of its own: for hundreds of producers."""
    topic: str
    """The topic they send to."""
    acks: Acknowledgements = "all"
    """Whose acknowledgement a message needs: none (0), the leader's (1), all in-sync replicas' (all)."""
    idempotence: bool = False
    """Whether brokers detect retries of messages they already have."""
    messages: Positive | None = None
    """Number of messages of each producer; either this or `duration`."""
    duration: DurationMs | None = None
    """How long each producer sends; either this or `messages`."""
    starts: DurationMs | None = None
    """How long after the others each of them starts to send; without it at once."""
    timestamps: OffsetMs | None = None
    """How far the timestamps of messages are from the time at which they are sent: -100h, 2h."""
    rate: Literal["max"] | Rate = "max"
    """Messages per second of each producer, or `max`."""
    payload_bytes: Annotated[int, Field(ge=MIN_PAYLOAD_BYTES)] = 100
    """Size of a message, of which its identity takes 45 bytes."""
    key: Literal["none", "producer", "seq"] | Positive = "none"
    """The message's key: none, the producer's number, the sequence number, or that modulo a number."""
    partitioner: Literal[
        "round-robin",
        "random",
        "consistent",
        "consistent_random",
        "murmur2",
        "murmur2_random",
        "fnv1a",
        "fnv1a_random",
    ] = "consistent_random"
    """How partitions are chosen: in turn by kaput (round-robin), or by that partitioner of librdkafka."""
    transactions: Transactions | None = None
    """Sends messages in transactions of this size; implies idempotence."""
    on_failure: OnFailure | None = None
    """Keeps messages that Kafka does not take in stores (docs/KEEP.md)."""
    cluster: str | None = None
    """Which of several clusters they send to; default: the first."""
    config: Config = {}
    """Client settings, in the client's names (librdkafka's by default)."""
    client: Client = "librdkafka"
    """`librdkafka`: kaput's own producer; `java`: Kafka's own (docs/JAVA_CLIENT.md); `command`: any program
    (docs/ADDING_A_CLIENT.md)."""
    client_version: str | None = None
    """Of `librdkafka`: the version of confluent-kafka (default: kaput's own); of `java`: the Kafka version of
    the client (default: the cluster's)."""
    command: str | None = None
    """With `client: command`: the command line that starts a producer."""
    patience: DurationMs = 120_000
    """With `command` or `java`: how long the program may neither read nor print before it counts as
    hanging.
    """

    @property
    def in_words(self) -> str:
        """What tells its messages from another entry's: `, starting 6s later, timestamps 100 h behind`."""
        late = f", starting {format_duration(self.starts)} later" if self.starts else ""
        if not (off := self.timestamps or 0):
            return late
        unit = next(each for each in "dhms" if off % UNIT_MS[each] == 0 or each == "s")
        return (
            f"{late}, timestamps {abs(off) / UNIT_MS[unit]:,.10g} {unit} {'ahead' if off > 0 else 'behind'}"
        )

    @model_validator(mode="before")
    @classmethod
    def _transactions_are_idempotent(cls, data: Any) -> Any:
        with_them = isinstance(data, dict) and data.get("transactions") is not None
        return {"idempotence": True, **data} if with_them else data

    @property
    def transaction_timeout_ms(self) -> int:
        """After how long the coordinator aborts its open transactions."""
        given = str(self.config.get("transaction.timeout.ms", KAFKAS_TIMEOUT_MS))
        return int(given) if given.isdecimal() else KAFKAS_TIMEOUT_MS

    @property
    def delivery_timeout_ms(self) -> int | None:
        """After how long its client gives up a message; None if that is unknown, or never."""
        if self.client not in _DELIVERY_TIMEOUTS:
            return None
        names, default = _DELIVERY_TIMEOUTS[self.client]
        if self.client == "librdkafka" and (
            self.transactions is not None or "transactional.id" in self.config
        ):
            default = self.transaction_timeout_ms  # librdkafka's own default for these
        if self.on_failure is not None:
            default = _KEEPS_TIMEOUT_MS
        given = next((str(self.config[name]) for name in names if name in self.config), str(default))
        return int(given) if given.isdecimal() and int(given) else None

    @property
    def retries_disabled(self) -> bool:
        return any(str(self.config.get(name)) == "0" for name in _RETRIES)

    def rules(self) -> Found:
        if self.messages is not None and self.duration is not None:
            yield ("duration",), "messages is also given; write only one of the two"
        if self.messages is None and self.duration is None:
            yield (), "neither messages nor duration is given; write one of them"
        if self.per_process > 1 and (self.client != "librdkafka" or self.transactions is not None):
            yield ("per-process",), "only librdkafka's producers without transactions share a process"
        if self.timestamps is not None and (self.client != "librdkafka" or self.on_failure is not None):
            yield ("timestamps",), "only kaput's own producers without stores set them; leave it out"
        yield from self.config_rules()
        yield from self._keeping()
        yield from check_client(self.client, self.client_version, self.command, self.config)
        if self.client != "librdkafka":
            yield from self._other_client()

    def config_rules(self) -> Found:
        """Mistakes in its config: reserved settings and contradictions."""
        yield from check_reserved(self.config, _RESERVED)
        yield from self._transactional()
        if not self.idempotence:
            return
        if self.acks != "all":
            yield ("acks",), f"idempotence needs acks all, not {self.acks}"
        for name in _IN_FLIGHT:
            if name in self.config and not _at_most(self.config[name], 5):
                yield (
                    ("config", name),
                    f"idempotence allows at most 5 requests in flight, not {self.config[name]}",
                )
        for name in _RETRIES:
            if str(self.config.get(name)) == "0":
                yield ("config", name), "idempotence needs retries"

    def _transactional(self) -> Found:
        given = self.config.get(_TIMEOUT)
        if self.transactions is None:
            if given is not None:
                yield (
                    ("config", _TIMEOUT),
                    "these producers do not use transactions; write transactions: {size: 10}",
                )
            return
        if not self.idempotence:
            yield ("idempotence",), "transactions need idempotence; leave it out or write true"
        if given is not None and not _at_most(given, _LONGEST_TIMEOUT_MS):
            yield (
                ("config", _TIMEOUT),
                f"{given!r} is more than brokers allow: at most {_LONGEST_TIMEOUT_MS} (ms)",
            )

    def _keeping(self) -> Found:
        if self.on_failure is None:
            return
        if self.client != "librdkafka":
            yield ("on-failure",), f"only client: librdkafka can use stores, not {self.client}"
        if self.transactions is not None:
            yield ("on-failure",), "a message that fails aborts its transaction, so none is kept"
        for name in _MESSAGE_TIMEOUTS:
            if str(self.config.get(name)) == "0":
                yield ("config", name), "a message that never fails would never be kept; write 5000"

    def _other_client(self) -> Found:
        java = self.client == "java"
        if self.partitioner not in ("round-robin", Producers.model_fields["partitioner"].default):
            instead = "partitioner.class in config" if java else "leave it to the command"
            yield (
                ("partitioner",),
                f"{self.partitioner} is a partitioner of librdkafka; write round-robin, or {instead}",
            )
        if java and self.partitioner == "round-robin" and "partitioner.class" in self.config:
            yield ("config", "partitioner.class"), "partitioner is also given; write only one of the two"


def _at_most(value: object, limit: int) -> bool:
    text = str(value)
    return text.isdecimal() and int(text) <= limit
