"""Consumer groups in a scenario: how many members, which protocol, when they commit, how slowly they work.

A block of model.py; what must agree between its keys is checked in group_checks.py.
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
    """What a pipe makes: each record that it is delivered becomes one message of another topic."""

    topic: str
    """The topic that the messages go to, to each of its partitions in turn."""
    size: Positive = 100
    """How many records are processed in one transaction at most."""
    config: Config = {}
    """Settings of the producer, in librdkafka's names."""


class Group(Block):
    """A consumer group of `members` processes."""

    id: str
    """The group's id."""
    topics: Annotated[list[str], Field(min_length=1)]
    """The topics that it subscribes to."""
    members: Count = 1
    """How many members, numbered from 1; each is a process. More than partitions: some are idle."""
    type: GroupType = "classic"
    """Who divides the partitions: the members (`classic`), the broker (`consumer`, KIP-848), or nobody: the
    group is a queue, whose records go to whoever asks (`share`, KIP-932)."""
    assignor: Literal["range", "roundrobin", "cooperative-sticky"] | None = None
    """How a classic group divides its partitions; without it librdkafka's default (range, roundrobin)."""
    static: bool = False
    """Whether each member has a group.instance.id of its own, and keeps its partitions when it restarts."""
    commit: Literal["after", "before", "auto"] = "after"
    """When offsets are committed: `after` the records are processed; `before`, so that what a member has in
    hand is lost with it; or by the client itself, every auto.commit.interval.ms (`auto`)."""
    commit_mode: Literal["async", "sync"] = "async"
    """Whether the member waits for the answer to each commit (sync) or goes on (async)."""
    commit_every: Annotated[int, Field(ge=0), BeforeValidator(no_bool)] = 0
    """Commit each time after so many records. 0: every half second (`after`), or each poll (`before`)."""
    processing: DurationOrZeroMs = 0
    """How long a member works on each record, before its delivery counts; a poll then gives up to 500."""
    acknowledge: Literal["implicit", "explicit"] = "implicit"
    """Of a share group: the next poll accepts everything, or each record is acknowledged by itself."""
    release_every: Positive | None = None
    """Of explicit acknowledgements: each N-th record of a partition is released at its first delivery."""
    reject_every: Positive | None = None
    """Of explicit acknowledgements: each N-th record of a partition is rejected."""
    produces: Produces | None = None
    """Consume, transform, produce, exactly once: each record becomes a message, in the transaction that also
    commits the record's offset."""
    group_config: Config = {}
    """Settings of a share group at the brokers, in Kafka's own names; reads from the start unless told."""
    config: Config = {}
    """Settings of the client, in its own names (librdkafka's, unless `client` says otherwise)."""
    client: Client = "librdkafka"
    """`librdkafka`, in kaput's own member; `java`, Kafka's own (docs/JAVA_CLIENT.md); or `command`: any
    program (docs/ADDING_A_CLIENT.md)."""
    client_version: str | None = None
    """Of `client: java`: the version of Kafka whose client it is; the cluster's, if it is not given."""
    command: str | None = None
    """Of `client: command`: the command line to start for each member."""

    @property
    def reset(self) -> tuple[str, str]:
        """The setting that says where it begins where it has committed nothing, and its value."""
        name = "share.auto.offset.reset" if self.type == "share" else "auto.offset.reset"
        given = self.group_config if self.type == "share" else self.config
        return name, str(given.get(name, "earliest")).lower()

    @property
    def reads_back_ns(self) -> int | None:
        """How much of what was stored before it began it reads: 0, nothing; None: everything, and
        EVERYTHING_NS: from the position on that it had committed before (`none`).
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
        """Whether it is given records of open and aborted transactions; if nothing is said, by the client's
        default, which share groups (whose brokers decide it) have otherwise.
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
