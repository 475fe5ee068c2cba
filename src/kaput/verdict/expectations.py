"""What the scenario's author expects: `lost: '>0'`, `unseen: 0`, `redelivered: '<=5%'`.

More than expected breaks an expectation; less, or nothing where something must happen, proves nothing.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from kaput.evidence.findings_service import Expected, Met
from kaput.scenario.model import Expect

_COMPARISON = re.compile(r"(>=|<=|>|<|==)?\s*(\d+(?:\.\d+)?)\s*(%)?")
_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
}


# What was not measured, and why it may not have been.
_NOT_MEASURED = {
    "unavailable-ms": "no fault hit a partition that was written to",
    "election-ms": "no fault led to an election",
    "ack-p99-ms": "nothing was acknowledged",
    "end-to-end-p99-ms": "nothing was delivered",
}


class Outcome(NamedTuple):
    """Sentences about figures that are above (a violation) and below (inconclusive) what was expected, and
    what came of each expectation.
    """

    exceeded: list[str]
    unmet: list[str]
    every: list[Expected]


def compare(expect: Expect, figures: Mapping[str, float | None], sent: int) -> Outcome:
    """Every expected figure against its comparison; shares are of the messages sent."""
    outcome = Outcome([], [], [])
    for field, wanted in expect:
        if field == "verdict" or wanted is None:
            continue
        name = field.replace("_", "-")
        found = figures.get(name, 0)
        if found is None:
            why = _NOT_MEASURED[name]
            outcome.unmet.append(f"the scenario expects {name} {wanted}, and it was not measured: {why}.")
            outcome.every.append(Expected(name=name, wanted=str(wanted), found=None, met="unmet"))
            continue
        match = _COMPARISON.fullmatch(str(wanted).strip())
        assert match is not None, f"the model has checked {wanted!r}"
        bound = float(match[2]) * (sent / 100 if match[3] else 1)
        met: Met = "exceeded" if found >= bound and match[1] != ">" else "unmet"
        if _OPERATORS[match[1] or "=="](found, bound):
            met = "met"
        else:
            sentence = f"the scenario expects {name} {wanted}, and it is {_number(found)}."
            (outcome.exceeded if met == "exceeded" else outcome.unmet).append(sentence)
        outcome.every.append(Expected(name=name, wanted=str(wanted), found=found, met=met))
    return outcome


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"
