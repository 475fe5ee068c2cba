"""What the author of a scenario expects of its run: a block of model.py.

How counts are held against it is for verdict/expectations.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, Field, create_model

from kaput.scenario.anomalies import ANOMALIES, attribute
from kaput.scenario.block import Block
from kaput.scenario.values import Comparison, no_share
from kaput.scenario.vocabulary import Verdict


class _Expect(Block):
    """The expected result; each anomaly is a number or a comparison (percentages of messages sent)."""

    verdict: Verdict | None = None
    """The verdict of the run."""
    stuck: Annotated[Comparison, AfterValidator(no_share)] | None = None
    """Messages that groups waited for until a fault was healed; the maximum over faults."""
    slump: Annotated[Comparison, AfterValidator(no_share)] | None = None
    """Consecutive seconds in which less than 80 % of the configured rate was acknowledged or delivered."""
    standstill: Annotated[Comparison, AfterValidator(no_share)] | None = None
    """The longest time in whole seconds that a last stable offset stalled below the high watermark."""


if TYPE_CHECKING:
    Expect = _Expect
else:
    _FIELDS: dict[str, Any] = {
        attribute(name): (Comparison | None, Field(None, description=one.what))
        for name, one in ANOMALIES.items()
    }
    Expect = create_model("Expect", __base__=_Expect, __doc__=_Expect.__doc__, **_FIELDS)
