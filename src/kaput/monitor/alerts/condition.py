"""When a value triggers an alert, and when it ends one: a comparison with a threshold."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass

# By a rule's key: how a value is compared, and how PromQL writes it.
COMPARISONS: dict[str, tuple[Callable[[float, float], bool], str]] = {
    "above": (operator.gt, ">"),
    "at-least": (operator.ge, ">="),
    "below": (operator.lt, "<"),
    "at-most": (operator.le, "<="),
    "other-than": (operator.ne, "!="),
}
# In which direction values get worse; `other-than` has none, and so no hysteresis.
WORSE_UPWARDS = {"above": True, "at-least": True, "below": False, "at-most": False}


@dataclass(frozen=True)
class Condition:
    """`clear`: replaces the threshold while an alert fires (hysteresis)."""

    comparison: str
    threshold: float
    clear: float

    def met(self, value: float) -> bool:
        """Whether the value triggers an alert."""
        return COMPARISONS[self.comparison][0](value, self.threshold)

    def cleared(self, value: float) -> bool:
        """Whether the value ends a firing alert."""
        return not COMPARISONS[self.comparison][0](value, self.clear)
