"""Compares a run with an earlier one, figure by figure: which figures are worse than a tolerance allows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from kaput.errors import UsageError
from kaput.evidence.findings import Findings
from kaput.report.comparison import FIGURES
from kaput.report.document import number
from kaput.scenario.nearest import hint

DEFAULT = "20%"
_NOISE_MS = 100.0  # a smaller increase of a time is ignored, unless a tolerance is given for that figure
_MORE_IS_NOT_WORSE = ("sent", "acked", "acked in 1 s %")
_MORE_IS_WORSE = {
    figure.name.replace(" ", "-"): figure for figure in FIGURES if figure.name not in _MORE_IS_NOT_WORSE
}
_TOLERANCE = re.compile(r"(?:(?P<name>[a-z0-9-]+)=)?(?P<value>\d+(?:\.\d+)?)\s*(?P<share>%)?")


@dataclass(frozen=True)
class Tolerance:
    """How much a figure may increase: by a share of its earlier value (1/5 is 20 %), or by an amount."""

    share: Fraction = Fraction(0)
    more: Fraction = Fraction(0)

    def limit(self, before: float) -> float:
        """The highest value that is not worse than `before`, rounded only once: 115 for 100 and 15 %."""
        return float(Fraction(str(before)) * (1 + self.share) + self.more)


@dataclass(frozen=True)
class ComparedFigure:
    """One figure: its values before and now (None: not measured), and the highest value allowed now."""

    name: str
    before: float | None
    now: float | None
    limit: float | None

    @property
    def worse(self) -> bool:
        """Whether the value is above its limit. A figure that was not measured before has no limit."""
        return self.now is not None and self.limit is not None and self.now > self.limit


def tolerances(words: Sequence[str]) -> dict[str, Tolerance]:
    """--tolerance (`20%`, `election-ms=50%`) by figure, "" for all others. Raises UsageError."""
    found: dict[str, Tolerance] = {}
    for word in [DEFAULT, *words]:
        match = _TOLERANCE.fullmatch(word.strip())
        if match is None:
            raise UsageError(f"--tolerance {word}: write a share (20%), or FIGURE=SHARE, or FIGURE=NUMBER")
        name, value = match["name"] or "", Fraction(match["value"])
        if name and name not in _MORE_IS_WORSE:
            raise UsageError(f"--tolerance {word}: no such figure; {hint(name, _MORE_IS_WORSE)}")
        if not name and not match["share"]:
            raise UsageError(f"--tolerance {word}: a number needs its figure, such as lost={word.strip()}")
        found[name] = Tolerance(share=value / 100) if match["share"] else Tolerance(more=value)
    return found


def compared(before: Findings, now: Findings, allowed: Mapping[str, Tolerance]) -> list[ComparedFigure]:
    """Compares every figure that was measured in either run."""
    found = []
    for name, figure in _MORE_IS_WORSE.items():
        was, is_ = figure.of(before), figure.of(now)
        if was is None and is_ is None:
            continue
        found.append(ComparedFigure(name, was, is_, None if was is None else _limit(name, was, allowed)))
    return found


def _limit(name: str, before: float, allowed: Mapping[str, Tolerance]) -> float:
    limit = allowed.get(name, allowed[""]).limit(before)
    in_noise = name.endswith("-ms") and name not in allowed
    return max(limit, before + _NOISE_MS) if in_noise else limit


def lines(before: Findings, now: Findings, figures: Sequence[ComparedFigure]) -> list[str]:
    worse = [one for one in figures if one.worse]
    are = "is" if len(worse) == 1 else "are"
    verdict = f"{len(worse)} of {len(figures)} figures {are} worse" if worse else "no figure is worse"
    head = f"{now.run.scenario}, run {now.run.id}, against run {before.run.id}: {verdict} than the tolerance"
    return [head, *(f"  {_line(one)}" for one in figures)]


def _line(one: ComparedFigure) -> str:
    values = f"{one.name}: {number(one.before)} before, {number(one.now)} now"
    if one.limit is None:
        return f"{values} (not measured before: not compared)"
    return f"{values}, at most {number(one.limit)}{': WORSE' if one.worse else ''}"
