"""The `expect` block: what the author of a scenario expects of its run.

verdict/expectations.py compares it with the results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field, create_model

from kaput.scenario.anomalies import ANOMALIES, attribute
from kaput.scenario.block import Block
from kaput.scenario.values import Comparison, no_share
from kaput.scenario.vocabulary import Verdict

Limit = Annotated[Comparison, AfterValidator(no_share)] | None  # of a number that is not a count of messages


class _Expect(Block):
    """The expected result; each anomaly is a number or a comparison (percentages of messages sent)."""

    verdict: Verdict | None = None
    """Whether Kafka keeps its promise (`promise` in findings.json)."""
    mirror: Literal["identical"] | None = None
    """`identical`: `kaput compare` finds nothing lost in the target of any mirror that runs at the end."""
    stuck: Limit = None
    """Messages that groups waited for until a fault was healed; the maximum over faults."""
    slump: Limit = None
    """Consecutive seconds in which less than 80 % of the configured rate was acknowledged or delivered."""
    standstill: Limit = None
    """The longest time, in whole seconds, that a last stable offset stalled below the high watermark."""
    standstill_ms: Limit = None
    """The longest time without any acknowledgement on all partitions, while messages waited for one."""
    unavailable_ms: Limit = None
    """The longest time without an acknowledgement on a partition that any fault hit."""
    election_ms: Limit = None
    """The time from a fault's effect to the first new leader; the longest over all faults."""
    ack_p99_ms: Limit = None
    """The 99th percentile of the time from the attempt to the acknowledgement."""
    end_to_end_p99_ms: Limit = None
    """The 99th percentile of the time from the attempt to the first delivery, over all groups."""


if TYPE_CHECKING:
    Expect = _Expect
else:
    _FIELDS: dict[str, Any] = {
        attribute(name): (Comparison | None, Field(None, description=one.what))
        for name, one in ANOMALIES.items()
    }
    Expect = create_model("Expect", __base__=_Expect, __doc__=_Expect.__doc__, **_FIELDS)
