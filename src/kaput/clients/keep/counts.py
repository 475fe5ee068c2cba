"""The counts of a producer's messages by outcome, which always add up."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from kaput.errors import AccountingError


@dataclass(slots=True)
class Counts:
    """The messages of one producer. Each call of `produce` counts in exactly one of acked, failed, unknown,
    kept, refused and queued.
    """

    sent: int = 0  # calls of `produce`
    acked: int = 0
    failed: int = 0  # neither sent nor kept: all stores failed until the producer was closed
    unknown: int = 0  # the same, but Kafka may have it
    kept: int = 0  # in a store
    refused: int = 0  # `produce` raised: the caller still has it
    queued: int = 0  # none of these yet
    # Some of these also count as:
    sent_again: int = 0  # by the queue, after a delivery report with an error
    in_doubt: int = 0  # sent again or kept although Kafka may have it
    overtaken: int = (
        0  # acknowledged while an earlier message of the same key was kept or waiting: order lost
    )
    kept_by: dict[str, int] = field(default_factory=dict)  # by store

    def check(self) -> Counts:
        """Returns itself. Raises AccountingError if the counts do not add up."""
        parts = self.acked + self.failed + self.unknown + self.kept + self.refused + self.queued
        if parts != self.sent or sum(self.kept_by.values()) != self.kept or self.queued < 0:
            raise AccountingError(f"the counts of kaput.keep.Producer do not add up: {asdict(self)}")
        return self
