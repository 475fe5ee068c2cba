"""What the author of a scenario expects of its run: a block of model.py.

How counts are held against it is for verdict/expectations.py.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from kaput.scenario.block import Block
from kaput.scenario.values import Comparison, no_share
from kaput.scenario.vocabulary import Verdict


class Expect(Block):
    """What the author expects; each anomaly is a number or a comparison (shares are of messages sent)."""

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
    """Stored behind a later message of the same producer."""
    inconsistent_offset: Comparison | None = None
    """One offset with two identities."""
    unseen: Comparison | None = None
    """Stored, never delivered."""
    redelivered: Comparison | None = None
    """Delivered more than once."""
    poll_skip: Comparison | None = None
    """Deliveries that jump over stored records."""
    nonmonotonic_poll: Comparison | None = None
    """Deliveries that step back."""
    commit_ahead: Comparison | None = None
    """Commits past what was delivered."""
    unassigned_delivery: Comparison | None = None
    """Deliveries from partitions that the member did not own."""
    stuck: Annotated[Comparison, AfterValidator(no_share)] | None = None
    """Messages that groups waited for until a fault was healed, of the fault with the most."""
    slump: Annotated[Comparison, AfterValidator(no_share)] | None = None
    """Seconds in a row in which less than 80 % of the ordered rate was acknowledged, or delivered."""
    standstill: Annotated[Comparison, AfterValidator(no_share)] | None = None
    """Whole seconds for which a last stable offset stood still below the high watermark, the longest time."""
    vanished: Comparison | None = None
    """Delivered, stored nowhere."""
    double_accept: Comparison | None = None
    """Records that a share group accepted more than once."""
    delivered_after_accept: Comparison | None = None
    """Records that a share group delivered after an accept of them was confirmed."""
    over_delivered: Comparison | None = None
    """Records that a share group delivered more often than its limit."""
    lost_release: Comparison | None = None
    """Records that came back to a share group and were never delivered again."""
    torn_transaction: Comparison | None = None
    """Transactions of which a part is stored, and a part not."""
    lost_commit: Comparison | None = None
    """Committed transactions of which nothing is stored."""
    hanging_transaction: Comparison | None = None
    """Last stable offsets that stood still for longer than a transaction may be open."""
    aborted_read: Comparison | None = None
    """Messages of transactions that never committed, delivered with read_committed."""
    processed_twice: Comparison | None = None
    """Inputs of a pipe with more than one output."""
    unprocessed: Comparison | None = None
    """Inputs of a pipe without an output."""
