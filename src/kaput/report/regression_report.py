"""The report of `kaput regress`: versions or settings side by side, and the regressions among them.

A regression is a difference for the worse with p below 5 % after Holm's correction that is at least SMALL;
or a broken promise of Kafka's that the first side kept. Runs are in pairs with the same seed. Whether chance
explains their differences is decided by a sign-flip test: under the null hypothesis both signs of each
difference are equally likely (Fisher's permutation test of the mean, two-sided).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from kaput.core import plural
from kaput.evidence.findings import Findings
from kaput.report.comparison import EVERY_FIGURE, longest
from kaput.report.document import (
    NOTHING,
    Block,
    Bullets,
    Cell,
    Code,
    Document,
    Head,
    Paragraph,
    Section,
    Table,
    number,
)
from kaput.report.statistics import Summary, summarise, summary_of

_EXACT = 14  # pairs: up to here all 2**n sign vectors are tried, beyond it _DRAWS random ones
_DRAWS = 20_000
_SEED = 0  # the same values always have the same p


@dataclass(frozen=True)
class Pairs:
    """One figure of paired runs: (before, now) for each pair."""

    values: Sequence[tuple[float, float]]

    @cached_property
    def differences(self) -> list[float]:
        """Now minus before."""
        return [now - before for before, now in self.values]

    @cached_property
    def difference(self) -> Summary:
        """The summary; with 5 or more pairs with an interval of the mean. Raises ValueError without pairs."""
        return summarise(self.differences)

    @property
    def share(self) -> float | None:
        """The mean difference as a share of the mean before; None if that mean is 0."""
        before = sum(value for value, _ in self.values) / len(self.values)
        return self.difference.mean / before if before else None

    def is_at_least(self, share: Fraction) -> bool:
        """Whether the mean difference is at least that share of the mean before (or that mean is 0)."""
        before, now = (sum(Fraction(str(value)) for value in side) for side in zip(*self.values, strict=True))
        return not before or abs(now - before) >= share * abs(before)

    @property
    def effect(self) -> float:
        """Pairs that increased minus pairs that decreased, as a share of all pairs: from -1 to 1."""
        signs = np.sign(self.differences)
        return float(signs.sum() / len(signs))

    @cached_property
    def p(self) -> float:
        """The p-value: the share of sign vectors that give a mean at least as far from 0."""
        found = np.array([value for value in self.differences if value], dtype=float)
        if not len(found):
            return 1.0
        sums = _signs(len(found)) @ found
        far = abs(sums) >= abs(found.sum()) * (1 - 1e-9)
        if len(found) <= _EXACT:
            return float(far.mean())
        return float((far.sum() + 1) / (len(far) + 1))

    @property
    def differs(self) -> bool:
        return any(self.differences)


def holm(ps: Sequence[float]) -> list[float]:
    """The p-values after Holm's correction (1979) for many comparisons at once, in the same order."""
    order = np.argsort(ps, kind="stable")
    scaled = np.asarray(ps, dtype=float)[order] * np.arange(len(ps), 0, -1)
    adjusted = np.empty(len(ps))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(scaled))
    return [float(value) for value in adjusted]


def pairs_needed(comparisons: int, alpha: float) -> int:
    """The minimum number of pairs for any of `comparisons` corrected p-values to be below `alpha`."""
    return int(np.ceil(1 + np.log2(max(1, comparisons) / alpha)))


def _signs(n: int) -> npt.NDArray[np.float64]:
    """Sign vectors as rows of -1 and 1: all of them, or random draws."""
    if n <= _EXACT:
        bits = np.arange(2**n)[:, None] >> np.arange(n) & 1
    else:
        bits = np.random.default_rng(_SEED).integers(0, 2, (_DRAWS, n))
    return np.asarray(2.0 * bits - 1.0, dtype=np.float64)


ALPHA = 0.05
SMALL = Fraction(1, 20)  # a smaller relative difference is not a regression, whatever its p
When = Literal["before", "during", "after"]
Runs = Mapping[int, tuple[str, Findings]]  # by seed: the name of the folder, and the findings


def _latency(when: When, end_to_end: bool) -> Callable[[Findings], float | None]:
    def p99(findings: Findings) -> float | None:
        found = (one for one in findings.latency_ms.around_faults if one.when == when)
        return next(((one.end_to_end if end_to_end else one.ack).p99 for one in found), None)

    return p99


WHENS: tuple[When, ...] = ("before", "during", "after")
FIGURES: dict[str, Callable[[Findings], float | None]] = {
    **{name: EVERY_FIGURE[name].of for name in ("lost", "duplicate", "unavailable ms", "election ms")},
    "ISR restored ms": lambda findings: longest(one.isr_restored_ms for one in findings.faults),
    **{f"ack p99 {when} ms": _latency(when, end_to_end=False) for when in WHENS},
    **{f"end-to-end p99 {when} ms": _latency(when, end_to_end=True) for when in WHENS},
    "acked per s": lambda findings: findings.rates.acked_per_s,
    "CPU µs per message": lambda findings: findings.rates.cpu_us_per_message,
}
_LESS_IS_WORSE = ("acked per s",)


@dataclass(frozen=True)
class Difference:
    """A figure of a scenario on one side, compared with the first side. `p`: after Holm's correction."""

    scenario: str
    side: str
    figure: str
    pairs: Pairs
    p: float

    @property
    def verdict(self) -> str:
        """`worse`, `better`, or empty if the difference is not significant or is small."""
        if self.p >= ALPHA or not self.pairs.is_at_least(SMALL):
            return ""
        up = self.pairs.difference.mean > 0
        return "worse" if up != (self.figure in _LESS_IS_WORSE) else "better"

    def to_json(self) -> dict[str, Any]:
        pairs = self.pairs
        found = {
            "difference": asdict(pairs.difference),
            "effect": pairs.effect,
            "p": pairs.p,
            "p_holm": self.p,
        }
        names = {"scenario": self.scenario, "side": self.side, "figure": self.figure}
        return {**names, "verdict": self.verdict or "none", **found, "pairs": list(pairs.values)}


@dataclass(frozen=True)
class Sides:
    """The judged runs by scenario and side. All other sides are compared with the first."""

    names: Sequence[str]
    runs: Mapping[str, Mapping[str, Runs]]

    def differences(self) -> list[Difference]:
        """The difference of every figure that has two or more conclusive pairs and differs in one of them."""
        found = [
            (scenario, side, figure, pairs)
            for scenario, by_side in self.runs.items()
            for side in self.names[1:]
            for figure, of in FIGURES.items()
            if (pairs := _pairs(by_side[self.names[0]], by_side[side], of)).differs and len(pairs.values) > 1
        ]
        adjusted = holm([pairs.p for *_, pairs in found])
        return [Difference(*each, p=p) for each, p in zip(found, adjusted, strict=True)]

    def broken(self) -> list[str]:
        """A sentence for each promise that the first side kept and another broke with the same seed."""
        return [
            f"{scenario}, seed {seed}: Kafka's promise is broken with {side} ({folder})"
            for scenario, by_side in self.runs.items()
            for side in self.names[1:]
            for seed, (folder, now) in by_side[side].items()
            if now.verdict == "violated"
            and seed in by_side[self.names[0]]
            and by_side[self.names[0]][seed][1].verdict == "held"
        ]

    def regressions(self) -> list[str]:
        worse = (each for each in self.differences() if each.verdict == "worse")
        return [*self.broken(), *(f"{each.scenario}, {each.figure}: {each.side} is worse" for each in worse)]

    def fewest_pairs(self) -> int:
        """The smallest number of conclusive pairs of any scenario and side."""
        first, lost = self.names[0], FIGURES["lost"]
        pairs = (_pairs(by[first], by[side], lost) for by in self.runs.values() for side in self.names[1:])
        return min(len(each.values) for each in pairs)

    def to_json(self) -> dict[str, Any]:
        folders = {
            scenario: {side: [folder for folder, _ in runs.values()] for side, runs in by_side.items()}
            for scenario, by_side in self.runs.items()
        }
        differences = [each.to_json() for each in self.differences()]
        return {"regressions": self.regressions(), "differences": differences, "runs": folders}


def document(sides: Sides, command: str) -> Document:
    """The document. `command`: the command that made it."""
    differences, lines = sides.differences(), sides.regressions()
    pairs = sides.fewest_pairs()
    needed = pairs_needed(len(differences), ALPHA)
    answer = f"{plural(len(lines), 'regression')} against {sides.names[0]}"
    none = (
        "No figure is significantly worse."
        if pairs > 1
        else "Nothing can be compared: at least two pairs are needed."
    )
    why: list[Block] = [Bullets(lines)] if lines else [Paragraph(none)]
    if pairs < needed:
        few = f"{plural(len(differences), 'comparison')}, with at least {plural(pairs, 'pair')} each"
        text = f"{few}: with fewer than {needed} pairs, not even a change in every pair is significant."
        why.append(Paragraph(text, "note"))
    of_scenarios = [
        _scenario(name, sides, [one for one in differences if one.scenario == name]) for name in sides.runs
    ]
    head = Head(answer, name="Regressions", tone="violated" if lines else "held")
    first, last = Section(answer, [*why, Paragraph(_HOW)]), Section("Made by", [Code(command)])
    return Document(head, [first, *of_scenarios, last])


_HOW = (
    "Runs with the same seed form a pair; the order of the sides alternates. Differences: the mean over all "
    "pairs, its 95 % interval (bootstrap, from 5 pairs on), pairs up and down, p of a sign-flip test, and p "
    f"after Holm's correction for all comparisons. A difference below {float(SMALL):.0%} is not a regression."
)


def _pairs(first: Runs, other: Runs, of: Callable[[Findings], float | None]) -> Pairs:
    values = []
    for seed in sorted(first.keys() & other.keys()):
        before, now = first[seed][1], other[seed][1]
        if "inconclusive" not in (before.verdict, now.verdict):
            values.append((of(before), of(now)))
    return Pairs([(a, b) for a, b in values if a is not None and b is not None])


def _scenario(name: str, sides: Sides, differences: Sequence[Difference]) -> Section:
    by_side = sides.runs[name]
    rows = [[figure, *(_values(by_side[side], of) for side in sides.names)] for figure, of in FIGURES.items()]
    shown = [row for row in rows if set(row[1:]) != {NOTHING}]
    counts = ["conclusive runs", *(f"{len(_conclusive(by_side[side]))}" for side in sides.names)]
    header = ["figure", "", "mean difference", "95 % interval", "share", "up, down", "p", "corrected", ""]
    folders = "\n".join(
        f"{side}: {' '.join(run for run, _ in by_side[side].values())}" for side in sides.names
    )
    title = next((one.run.title for runs in by_side.values() for one in _conclusive(runs)), "")
    about = f"{title}. Medians (least to most):" if title else "Medians (least to most):"
    blocks: list[Block] = [Paragraph(about), Table(["", *sides.names], [counts, *shown])]
    if differences:
        table = Table(header, [_row(one) for one in differences], "ll")
        blocks += [Paragraph(f"Against {sides.names[0]}:"), table]
    return Section(name, [*blocks, Paragraph("The runs:"), Code(folders)])


def _conclusive(runs: Runs) -> list[Findings]:
    return [findings for _, findings in runs.values() if findings.verdict != "inconclusive"]


def _values(runs: Runs, of: Callable[[Findings], float | None]) -> str:
    found = summary_of(map(of, _conclusive(runs)))
    return NOTHING if found is None else found.text


def _row(one: Difference) -> list[str | Cell]:
    pairs = one.pairs
    up = sum(value > 0 for value in pairs.differences)
    down = sum(value < 0 for value in pairs.differences)
    share = NOTHING if pairs.share is None else f"{100 * pairs.share:+.0f} %"
    found = [number(pairs.difference.mean), pairs.difference.interval, share]
    ps: list[str | Cell] = [f"{pairs.p:.3f}", f"{one.p:.3f}", Cell(one.verdict, bad=one.verdict == "worse")]
    return [one.figure, one.side, *found, f"{up}, {down} of {len(pairs.values)}", *ps]
