"""What the scenario's author expects: `lost: '>0'`, `unseen: 0`, `redelivered: '<=5%'`.

More than expected breaks an expectation; less, or nothing where something must happen, proves nothing.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping

from kaput.evidence.findings_service import Expected, Met
from kaput.scenario.anomalies import ANOMALIES
from kaput.scenario.model import Expect
from kaput.scenario.vocabulary import Verdict

_COMPARISON = re.compile(r"(>=|<=|>|<|==)?\s*(\d+(?:\.\d+)?)\s*(%)?")
_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
}
_SECONDS = ("slump", "standstill")
# What was not measured, and why it may not have been.
_NOT_MEASURED = {
    "unavailable-ms": "no fault hit a partition that was written to",
    "election-ms": "no fault led to an election",
    "ack-p99-ms": "nothing was acknowledged",
    "end-to-end-p99-ms": "nothing was delivered",
}

_WORST: tuple[Verdict, ...] = ("violated", "inconclusive", "held")
_MEANS: dict[Met, Verdict] = {"exceeded": "violated", "unmet": "inconclusive", "met": "held"}


def compare(
    expect: Expect,
    promise: Verdict,
    figures: Mapping[str, float | None],
    sent: int,
    permitted: Mapping[str, int],
) -> list[Expected]:
    """What came of every expectation; shares are of the messages sent. `permitted`: how many of each anomaly
    Kafka's configuration permits.
    """
    found = []
    for field, wanted in expect:
        name = field.replace("_", "-")
        if wanted is None:
            continue
        if name == "verdict":
            found.append(_of_promise(wanted, promise))
        elif (figure := figures.get(name, 0)) is None:
            why = f"not measured: {_NOT_MEASURED[name]}"
            found.append(Expected(name=name, wanted=str(wanted), found=None, met="unmet", why=why))
        else:
            met = _met(str(wanted), figure, sent)
            why = "" if met == "met" else _in_words(name, figure, permitted.get(name, 0))
            found.append(Expected(name=name, wanted=str(wanted), found=figure, met=met, why=why))
    return found


def verdict_of(promise: Verdict, expected: Iterable[Expected]) -> Verdict:
    """The verdict of a run: the worst of Kafka's promise and every expectation."""
    words = {promise, *(_MEANS[one.met] for one in expected)}
    return next(word for word in _WORST if word in words)


def _of_promise(wanted: Verdict, promise: Verdict) -> Expected:
    if wanted == promise:
        return Expected(name="verdict", wanted=wanted, found=promise, met="met")
    met: Met = "exceeded" if promise == "violated" else "unmet"
    return Expected(name="verdict", wanted=wanted, found=promise, met=met, why=promise)


def _met(wanted: str, figure: float, sent: int) -> Met:
    match = _COMPARISON.fullmatch(wanted.strip())
    assert match is not None, f"the model has checked {wanted!r}"
    bound = float(match[2]) * (sent / 100 if match[3] else 1)
    if _OPERATORS[match[1] or "=="](figure, bound):
        return "met"
    return "exceeded" if figure >= bound and match[1] != ">" else "unmet"


def _in_words(name: str, figure: float, permitted: int) -> str:
    """`8 lost, permitted`, `10,250.4 ms`."""
    number = f"{figure:,}" if isinstance(figure, int) else f"{figure:,.1f}"
    unit = "ms" if name.endswith("-ms") else "s" if name in _SECONDS else name
    if not permitted or name not in ANOMALIES:
        return f"{number} {unit}"
    share = "permitted" if permitted == figure else f"{permitted:,} of them permitted"
    return f"{number} {unit}, {share}"
