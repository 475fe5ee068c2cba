"""What the scenario's author expects: `lost: '>0'`, `unseen: 0`, `redelivered: '<=5%'`.

More than expected breaks an expectation; less, or nothing where something must happen, proves nothing.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from kaput.scenario.model import Expect

_COMPARISON = re.compile(r"(>=|<=|>|<|==)?\s*(\d+(?:\.\d+)?)\s*(%)?")
_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
}


class Outcome(NamedTuple):
    """Sentences about counts that are above (a violation) and below (inconclusive) what was expected."""

    exceeded: list[str]
    unmet: list[str]


def compare(expect: Expect, counts: Mapping[str, int], sent: int) -> Outcome:
    """Every expected anomaly's count against its comparison; shares are of the messages sent."""
    outcome = Outcome([], [])
    for field, wanted in expect:
        if field == "verdict" or wanted is None:
            continue
        name = field.replace("_", "-")
        count = counts.get(name, 0)
        match = _COMPARISON.fullmatch(str(wanted).strip())
        assert match is not None, f"the model has checked {wanted!r}"
        bound = float(match[2]) * (sent / 100 if match[3] else 1)
        if _OPERATORS[match[1] or "=="](count, bound):
            continue
        sentence = f"the scenario expects {name} {wanted}, and it is {count:,}."
        (outcome.exceeded if count >= bound and match[1] != ">" else outcome.unmet).append(sentence)
    return outcome
