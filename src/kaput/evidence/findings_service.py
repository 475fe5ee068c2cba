"""Parts of the findings: standstills and their causes, availability, suspects, expectations. The document:
findings.py.
"""

from __future__ import annotations

from typing import Literal

from kaput.evidence.findings_claims import EndedBy, Wait
from kaput.evidence.findings_parts import FindingsPart

Met = Literal["met", "exceeded", "unmet"]


class NotableEvent(FindingsPart):
    """Something that happened to the cluster, or to a group."""

    at_ns: int
    """When."""
    kind: str
    """fault, heal, election, no-leader, isr, fenced, unfenced, started, stopped, rebalance or load-end."""
    what: str
    """What it was, in a few words."""


class Standstill(FindingsPart):
    """At least a second without any acknowledgement, or delivery, while messages were waiting for one."""

    group: str | None = None
    """The group that was delivered nothing; null: nothing was acknowledged."""
    topic: str | None = None
    """The partition's topic; null: of all partitions together."""
    partition: int | None = None
    """The partition; null as above."""
    from_ns: int
    """Since when."""
    to_ns: int
    """Until when."""
    length_ms: float
    """How long."""
    ended_by: EndedBy | None
    """The last condition that was met (see the glossary); null if it lasted until the end of the load."""
    waited_for: list[Wait] = []
    """What it waited for, in order; empty if that is not known."""
    cause: str | None = None
    """The likeliest cause, in a sentence; null if it is not known."""
    happened: list[NotableEvent] = []
    """What happened meanwhile, at most 20 of them."""
    happened_left_out: int = 0
    """How many more there were."""


class Availability(FindingsPart):
    """How available the service was to producers, or to a group: of one partition, or of all together."""

    group: str | None = None
    """The group that was delivered messages; null: of acknowledgements."""
    topic: str | None = None
    """The partition's topic; null: of all partitions together."""
    partition: int | None = None
    """The partition; null as above."""
    load_s: float
    """Seconds from the first attempt to the last outcome, or delivery, that is known."""
    standstill_s: float
    """Seconds of these in standstills: without any acknowledgement, or delivery."""
    standstills: int
    """How many there were."""
    longest_standstill_ms: float
    """The longest one; 0 without any."""
    messages: int
    """Messages attempted; of a group: acknowledged, of the topics that it reads."""
    within_1s: int
    """Of these, acknowledged (or delivered first) within 1 s of the attempt."""
    within_1s_share: float | None
    """The share of them; null without messages."""
    within_timeout: int | None = None
    """Acknowledged within the producer's delivery timeout; null if that is unknown, and of groups."""
    within_timeout_share: float | None = None
    """The share of them; null as above."""


class Suspect(FindingsPart):
    """A producer whose acknowledgements cannot be Kafka's."""

    producer: int
    """The producer."""
    client: str
    """Its client: librdkafka, java or command; unknown without a scenario."""
    acked_leaderless: int
    """Messages attempted and acknowledged while their partition certainly had no running leader."""
    lost_without_offset: int
    """Messages acknowledged without an offset, and lost without a cause in the cluster; not with acks=0."""
    story: str
    """The evidence against it, in a sentence."""


class Expected(FindingsPart):
    """One expectation of the scenario, and what came of it."""

    name: str
    """Its key in `expect`."""
    wanted: str
    """What the scenario has."""
    found: int | float | str | None
    """What it was; null if not measured. Of `verdict`: the `promise`; of `mirror`: the worst row."""
    met: Met
    """`exceeded` violates; `unmet` leaves the run inconclusive."""
    why: str = ""
    """Of one that was not met: what was found, or why it could not be measured, in words."""

    @property
    def text(self) -> str:
        """`lost: 0 was not met (8 lost, permitted)`, or `lost: 0 was met`."""
        not_met = f"was not met ({self.why})" if self.why else "was not met"
        return f"{self.name}: {self.wanted} {'was met' if self.met == 'met' else not_met}"

    @property
    def reason(self) -> str:
        """The same as one of the reasons for the verdict."""
        return f"Your expectation {self.text}."
