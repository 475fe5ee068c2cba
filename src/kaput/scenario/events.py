"""Events that steps of the timeline may wait for, by Kafka's names, and the `at` block of a step.

Not here: checks against the rest of the file (checks/steps.py), and noticing events in a run
(runner/event_sources.py).
"""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

from pydantic import BeforeValidator, ConfigDict

from kaput.scenario.apis import API_KEYS
from kaput.scenario.block import Block, Found
from kaput.scenario.nearest import hint
from kaput.scenario.values import Positive, check_at

EventName = Literal[
    "election", "isr-shrink", "isr-expand",
    "partitions-assigned", "partitions-revoked", "partitions-lost",
    "markers-pending", "request", "effect", "heal",
]  # fmt: skip
PARTITION_EVENTS = frozenset({"election", "isr-shrink", "isr-expand"})
GROUP_EVENTS = frozenset({"partitions-assigned", "partitions-revoked", "partitions-lost"})
STEP_EVENTS = frozenset({"effect", "heal"})
MARKERS_PENDING = "markers-pending"
REQUEST = "request"
REQUESTS_MAX = 100  # how many passed requests a proxy reports


class EventMeaning(NamedTuple):
    """The valid values of `of`, what happened, and who notices it (docs/FAULTS.md)."""

    of: str
    about: str
    noticed: str


_METADATA = "the metadata logs, once a majority of the controllers has it"
_MEMBERS = "what members record of their client's callbacks"
EVENTS: dict[str, EventMeaning] = {
    "election": EventMeaning("topic, or topic/partition", "a new leader epoch with a leader", _METADATA),
    "isr-shrink": EventMeaning("topic, or topic/partition", "a replica left the in-sync replicas", _METADATA),
    "isr-expand": EventMeaning("topic, or topic/partition", "a replica joined them", _METADATA),
    "partitions-revoked": EventMeaning(
        "group", "a rebalance takes partitions from a member (onPartitionsRevoked)", _MEMBERS
    ),
    "partitions-assigned": EventMeaning(
        "group", "a rebalance gives a member its partitions (onPartitionsAssigned)", _MEMBERS
    ),
    "partitions-lost": EventMeaning(
        "group", "a member lost its partitions to others (onPartitionsLost)", _MEMBERS
    ),
    MARKERS_PENDING: EventMeaning(
        "producer N",
        "a transaction is in PrepareCommit or PrepareAbort: its end is decided, its markers are not written",
        "the coordinator's log, `__transaction_state`",
    ),
    REQUEST: EventMeaning(
        "nothing; `api` is Kafka's name of the request",
        "a client asked a broker",
        "the proxies in front of the brokers, which are there for it",
    ),
    "effect": EventMeaning("step, such as 1-kill", "that step's fault took effect", "the step itself"),
    "heal": EventMeaning("step, such as 1-kill", "that step's fault was healed", "the step itself"),
}


class Moment(Block):
    """When a step begins: at the N-th attempt over all producers, or at an event."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["message"]}, {"required": ["event"]}]}
    )

    message: Positive | None = None
    """The N of the N-th attempt over all producers."""
    event: EventName | None = None
    """The event that the step waits for."""
    of: str | None = None
    """What it happens to; without it any topic, group or producer of the scenario."""
    api: str | None = None
    """With event: request, which one, by Kafka's name: EndTxn, Produce, JoinGroup, ..."""
    nth: Positive | None = None
    """Wait for the N-th such event; 1 by default."""
    after: Annotated[str | None, BeforeValidator(check_at)] = None
    """Events count from then on: a time (10s) or a share of the load (30%); from its start by default."""

    def rules(self) -> Found:
        """Mistakes: exactly one of `message` and `event`; keys of events only with an event."""
        if (self.message is None) == (self.event is None):
            yield (), "write either {message: 30000} or {event: election}"
        if self.event is None:
            for key in ("of", "api", "nth", "after"):
                if getattr(self, key) is not None:
                    yield (key,), f"a message number takes no {key}; an event does"
        elif self.event in STEP_EVENTS and self.of is None:
            yield (), f"{self.event} needs a step; write for example of: 1-kill"
        elif self.event == REQUEST:
            yield from self._request()
        elif self.api is not None:
            yield ("api",), f"{self.event} takes no api; request does"

    def _request(self) -> Found:
        if self.of is not None:
            yield ("of",), "request takes no of; write api: EndTxn"
        if self.api is None:
            yield (), "request needs its name; write for example api: EndTxn"
        elif self.api not in API_KEYS:
            yield ("api",), f"{self.api!r} is not a request to nodes; {hint(self.api, API_KEYS)}"
        if (self.nth or 1) > REQUESTS_MAX:
            yield ("nth",), f"proxies report {REQUESTS_MAX} requests; write a later `after`"
