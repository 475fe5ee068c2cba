"""Checks the expectations of a scenario: `lost: '>0'`, `unseen: 0`, `redelivered: '<=5%'`.

More than expected violates an expectation; too little, if something must happen, leaves the run inconclusive.
Not here: Kafka's promise (judge.py).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction

from kaput.core import plural
from kaput.evidence.findings_claims import Expected, Met
from kaput.scenario.anomalies import ANOMALIES, GROUP_ANOMALIES
from kaput.scenario.model import Expect
from kaput.scenario.values import parse_comparison
from kaput.scenario.vocabulary import Verdict
from kaput.verdict.facts import MirrorAtEnd

_OPERATORS: dict[str, Callable[[Fraction, Fraction], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
}
_SHOWN = 3
_SECONDS = ("slump", "standstill")
# Why a figure may not have been measured.
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
    mirrors: Sequence[MirrorAtEnd] = (),
    groups: int = 1,
) -> list[Expected]:
    """Compares expectations with figures; percentages are of messages sent. `permitted`: by anomaly."""
    summed = {"stuck", *GROUP_ANOMALIES} if groups > 1 else set()
    compared = []
    for field, wanted in expect:
        name = field.replace("_", "-")
        if wanted is None:
            continue
        if name == "verdict":
            compared.append(_check_promise(wanted, promise))
        elif name == "mirror":
            compared.append(_check_mirrors(wanted, mirrors))
        elif (figure := figures.get(name, 0)) is None:
            why = f"not measured: {_NOT_MEASURED[name]}"
            compared.append(Expected(name=name, wanted=str(wanted), found=None, met="unmet", why=why))
        else:
            met = _met(str(wanted), figure, sent)
            why = "" if met == "met" else _figure_text(name, figure, permitted.get(name, 0))
            why += f", summed over {groups} groups" if why and name in summed else ""
            compared.append(Expected(name=name, wanted=str(wanted), found=figure, met=met, why=why))
    return compared


def verdict_of(promise: Verdict, expected: Iterable[Expected]) -> Verdict:
    """The verdict of a run: the worst of Kafka's promise and every expectation."""
    words = {promise, *(_MEANS[one.met] for one in expected)}
    return next(word for word in _WORST if word in words)


def _check_promise(wanted: Verdict, promise: Verdict) -> Expected:
    if wanted == promise:
        return Expected(name="verdict", wanted=wanted, found=promise, met="met")
    met: Met = "exceeded" if promise == "violated" else "unmet"
    return Expected(name="verdict", wanted=wanted, found=promise, met=met, why=promise)


def not_compared(mirrors: Iterable[MirrorAtEnd]) -> list[str]:
    """A note for each mirror that was not running at the end."""
    return [f"Mirror {one.name} was not compared: {one.ended}." for one in mirrors if one.ended]


def _check_mirrors(wanted: str, mirrors: Sequence[MirrorAtEnd]) -> Expected:
    """Checks `expect.mirror`: `exceeded` if anything is lost, `unmet` if a comparison is missing."""
    ran = [one for one in mirrors if not one.ended]
    lost = [one for one in ran if one.status == "lost"]
    unknown = [one for one in ran if one.status is None]

    def expected(found: str | None, met: Met, why: str = "") -> Expected:
        return Expected(name="mirror", wanted=wanted, found=found, met=met, why=why)

    if lost:
        return expected("lost", "exceeded", "; ".join(map(_losses, lost)))
    if unknown or not ran:
        whys = [f"{one.name} was not compared{one.why and f' ({one.why})'}" for one in unknown]
        return expected(None, "unmet", f"not measured: {'; '.join(whys) or 'no mirror ran in the end'}")
    by_design = any(one.status == "differs by design" for one in ran)
    return expected("differs by design" if by_design else "identical", "met")


def _losses(one: MirrorAtEnd) -> str:
    """`dc1->dc2: 4 rows lost: topic orders, records; topic orders, keys; cluster, quotas; ...`"""
    first = "; ".join([*one.lost[:_SHOWN], *(["..."] if len(one.lost) > _SHOWN else [])])
    return f"{one.name}: {plural(len(one.lost), 'row')} lost: {first}"


def _met(wanted: str, figure: float, sent: int) -> Met:
    comparison = parse_comparison(wanted)
    # As written in decimals: in floating point 50 % of 14 is more than 7, and 0.1 is not 0.1.
    value, bound = Fraction(str(figure)), comparison.of(sent)
    if _OPERATORS[comparison.operator](value, bound):
        return "met"
    return "exceeded" if value >= bound and comparison.operator != ">" else "unmet"


def _figure_text(name: str, figure: float, permitted: int) -> str:
    """`8 lost, permitted`, `10,250.4 ms`."""
    number = f"{figure:,}" if isinstance(figure, int) else f"{figure:,.1f}"
    unit = "ms" if name.endswith("-ms") else "s" if name in _SECONDS else name
    if not permitted or name not in ANOMALIES:
        return f"{number} {unit}"
    share = "permitted" if permitted == figure else f"{permitted:,} of them permitted"
    return f"{number} {unit}, {share}"
