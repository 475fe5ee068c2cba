"""What the author of a scenario expects of a run: a block of model.py.

verdict/expectations.py compares counts with it.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from kaput.scenario.block import Block
from kaput.scenario.values import Comparison, no_share
from kaput.scenario.vocabulary import Verdict


class Expect(Block):
    """The expected result; each anomaly is a number or a comparison (percentages of messages sent)."""

    verdict: Verdict | None = None
    """The verdict of the run."""
    lost: Comparison | None = None
    """Acknowledged, stored nowhere."""
    duplicate: Comparison | None = None
    """Stored more than once."""
    recovered: Comparison | None = None
    """Outcome unknown, yet stored."""
    ghost: Comparison | None = None
    """Failed, yet stored."""
    phantom: Comparison | None = None
    """Stored, never sent."""
    corrupt: Comparison | None = None
    """Records with a wrong checksum."""
    reordered: Comparison | None = None
    """Stored after a later message of the same producer."""
    inconsistent_offset: Comparison | None = None
    """One offset with two identities."""
    unseen: Comparison | None = None
    """Stored, never delivered."""
    redelivered: Comparison | None = None
    """Delivered more than once."""
    poll_skip: Comparison | None = None
    """Deliveries that skip stored records."""
    nonmonotonic_poll: Comparison | None = None
    """Deliveries that go back."""
    commit_ahead: Comparison | None = None
    """Commits beyond what was delivered."""
    unassigned_delivery: Comparison | None = None
    """Deliveries from partitions that the member did not own."""
    stuck: Annotated[Comparison, AfterValidator(no_share)] | None = None
    """Messages that groups waited for until a fault was healed; the maximum over faults."""
    slump: Annotated[Comparison, AfterValidator(no_share)] | None = None
    """Consecutive seconds in which less than 80 % of the configured rate was acknowledged or delivered."""
    standstill: Annotated[Comparison, AfterValidator(no_share)] | None = None
    """The longest time in whole seconds that a last stable offset stalled below the high watermark."""
    vanished: Comparison | None = None
    """Delivered, stored nowhere."""
    double_accept: Comparison | None = None
    """Records that a share group accepted more than once."""
    delivered_after_accept: Comparison | None = None
    """Records that a share group delivered after their acceptance was confirmed."""
    over_delivered: Comparison | None = None
    """Records that a share group delivered more often than its limit."""
    lost_release: Comparison | None = None
    """Released records that a share group never delivered again."""
    torn_transaction: Comparison | None = None
    """Transactions that are only partly stored."""
    lost_commit: Comparison | None = None
    """Committed transactions that are not stored at all."""
    hanging_transaction: Comparison | None = None
    """Last stable offsets that stalled for longer than a transaction may be open."""
    aborted_read: Comparison | None = None
    """Messages of transactions that never committed, delivered with read_committed."""
    processed_twice: Comparison | None = None
    """Inputs of a pipe with more than one output."""
    unprocessed: Comparison | None = None
    """Inputs of a pipe without an output."""
