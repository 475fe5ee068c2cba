"""Consumer groups in a scenario: number of members, protocol, commits, processing time.

A block of model.py; what must agree between its keys is checked in checks/groups.py.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from kaput.core import SECOND
from kaput.scenario.block import Block
from kaput.scenario.values import Config, Count, DurationOrZeroMs, Positive, no_bool
from kaput.scenario.vocabulary import Client, GroupType, Isolation

EVERYTHING_NS = 2**62
_AT_THE_END = ("latest", "end", "largest")
# Java's way to write a duration, as Kafka wants it.
_BY_DURATION = re.compile(
    r"by_duration:p(?=.)(?:(\d{1,5})d)?(?:t(?=.)(?:(\d{1,6})h)?(?:(\d{1,8})m)?(?:(\d{1,9}(?:\.\d{1,9})?)s)?)?"
)


class Produces(Block):
    """The output of a pipe: each record it reads becomes one message in another topic."""

    topic: str
    """The output topic; messages go to its partitions in turn."""
    size: Positive = 100
    """The most records in one transaction."""
    config: Config = {}
    """Producer settings, in librdkafka's names."""


class Group(Block):
    """A consumer group of `members` processes."""

    id: str
    """The group's id."""
    topics: Annotated[list[str], Field(min_length=1)]
    """The topics it subscribes to."""
    members: Count = 1
    """Number of members, numbered from 1; each is a process. With more members than partitions some are
    idle.
    """
    type: GroupType = "classic"
    """Who assigns partitions: the members (`classic`) or the broker (`consumer`, KIP-848). A share group
    (`share`, KIP-932) is a queue: its members share all partitions."""
    assignor: Literal["range", "roundrobin", "cooperative-sticky"] | None = None
    """How a classic group assigns partitions; default: librdkafka's (range, roundrobin)."""
    static: bool = False
    """Whether each member has its own group.instance.id, and keeps its partitions when it restarts."""
    commit: Literal["after", "before", "auto"] = "after"
    """When offsets are committed: `after` the records are processed; `before` that, so that a crashed member
    loses the records it was processing; or by the client itself, every auto.commit.interval.ms (`auto`)."""
    commit_mode: Literal["async", "sync"] = "async"
    """Whether the member waits for the response to each commit (sync) or continues (async)."""
    commit_every: Annotated[int, Field(ge=0), BeforeValidator(no_bool)] = 0
    """Commit after this many records. 0: every half second (`after`), or at each poll (`before`)."""
    processing: DurationOrZeroMs = 0
    """How long a member processes each record; a poll then returns at most 500."""
    acknowledge: Literal["implicit", "explicit"] = "implicit"
    """Share groups: the next poll accepts all records (implicit), or each record is acknowledged
    (explicit).
    """
    release_every: Positive | None = None
    """With explicit acknowledgements: every N-th record of a partition is released at its first delivery."""
    reject_every: Positive | None = None
    """With explicit acknowledgements: every N-th record of a partition is rejected."""
    produces: Produces | None = None
    """Consume, transform, produce, exactly once: each record becomes a message, in the transaction that also
    commits the record's offset."""
    group_config: Config = {}
    """Group settings of a share group, in Kafka's names; reads from the start by default."""
    config: Config = {}
    """Client settings, in the client's names (librdkafka's by default)."""
    client: Client = "librdkafka"
    """`librdkafka`: kaput's own member; `java`: Kafka's own (docs/JAVA_CLIENT.md); `command`: any program
    (docs/ADDING_A_CLIENT.md)."""
    client_version: str | None = None
    """With `client: java`: the Kafka version of the client; default: the cluster's."""
    command: str | None = None
    """With `client: command`: the command line that starts a member."""

    @property
    def reset(self) -> tuple[str, str]:
        """The setting for where it begins without committed offsets, and its value."""
        name = "share.auto.offset.reset" if self.type == "share" else "auto.offset.reset"
        given = self.group_config if self.type == "share" else self.config
        return name, str(given.get(name, "earliest")).lower()

    @property
    def reads_back_ns(self) -> int | None:
        """How far back it reads messages stored before it began (ns): 0: not at all; None: everything;
        EVERYTHING_NS: from its committed position (`none`).
        """
        _, value = self.reset
        if value == "none":
            return EVERYTHING_NS
        if value in _AT_THE_END:
            return 0
        match = _BY_DURATION.fullmatch(value)
        if match is None:
            return None
        days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
        return min(round((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * SECOND), EVERYTHING_NS - 1)

    @property
    def isolation(self) -> Isolation:
        """Whether it reads records of open and aborted transactions. The default is the client's; for share
        groups the brokers decide.
        """
        if self.type == "share":
            given = self.group_config.get("share.isolation.level", "read_uncommitted")
        else:
            given = self.config.get("isolation.level", "read_committed")
        return "read_committed" if given == "read_committed" else "read_uncommitted"

    @model_validator(mode="before")
    @classmethod
    def _commit_as_the_client_is_told(cls, data: Any) -> Any:
        if not isinstance(data, dict) or "commit" in data or not isinstance(data.get("config"), dict):
            return data
        automatic = str(data["config"].get("enable.auto.commit")).lower() == "true"
        return {**data, "commit": "auto"} if automatic else data
