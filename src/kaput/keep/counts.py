"""What became of a producer's messages, in numbers that always add up."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from kaput.errors import AccountingError


@dataclass(slots=True)
class Counts:
    """Messages of one producer. Every one that `produce` was called for is in exactly one of acked, failed,
    unknown, kept, refused and queued.
    """

    sent: int = 0  # calls of `produce`
    acked: int = 0
    failed: int = 0  # neither sent nor kept: every store failed until the producer was closed
    unknown: int = 0  # the same, but Kafka may have it
    kept: int = 0  # in a store
    refused: int = 0  # `produce` raised: the message remains the caller's
    queued: int = 0  # none of these yet; never counted as delivered
    # Of these:
    sent_again: int = 0  # by the queue behind the delivery report
    in_doubt: int = 0  # sent again or kept after a report that leaves open whether Kafka has it
    overtaken: int = (
        0  # acknowledged while an earlier message of the same key was kept or waiting: order lost
    )
    kept_by: dict[str, int] = field(default_factory=dict)  # by store

    def check(self) -> Counts:
        """Itself. Raises AccountingError if it does not add up."""
        parts = self.acked + self.failed + self.unknown + self.kept + self.refused + self.queued
        if parts != self.sent or sum(self.kept_by.values()) != self.kept or self.queued < 0:
            raise AccountingError(f"the counts of kaput.keep.Producer do not add up: {asdict(self)}")
        return self
