"""An opinion of one statement, and the comparisons that it comes from.

A statement is false only if no reading of the record and of the law allows it; if only some readings do, or
the evidence lacks what would tell, it is not decidable.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from second_opinion.effects import Effect
from second_opinion.raw import MS
from second_opinion.silences import Scope

TRUE, FALSE, NOT_DECIDABLE = "true", "false", "not decidable"


class Opinion(NamedTuple):
    """Of one statement. `why`: what the raw tables say instead, or why they do not tell."""

    claim: str
    verdict: str
    why: str


def one_of(words: str, said: Any, allowed: Iterable[Any]) -> Opinion:
    allowed = set(allowed)
    if said not in allowed:
        return Opinion(words, FALSE, f"{said!r}; recomputed: {sorted(allowed, key=str)[:6]}")
    return Opinion(words, TRUE if len(allowed) == 1 else NOT_DECIDABLE, f"{sorted(allowed, key=str)[:6]}")


def equal(words: str, said: float | None, allowed: set[Any], tolerance: float) -> Opinion:
    near = [
        one
        for one in allowed
        if (one is None) == (said is None) and (one is None or said is None or abs(one - said) <= tolerance)
    ]
    if not near:
        return Opinion(words, FALSE, f"{said!r}; recomputed: {sorted(allowed, key=str)[:6]}")
    return Opinion(words, TRUE if len(allowed) == 1 else NOT_DECIDABLE, f"{sorted(allowed, key=str)[:6]}")


def after(at: int | None, effect: Effect) -> float | None:
    return None if at is None else (at - effect.begin) / MS


def largest(choices: list[set[float | None]]) -> set[float | None]:
    """The largest of one value of each set, in every combination; null where all are null."""
    return _extreme(choices, max)


def smallest(choices: list[set[float | None]]) -> set[float | None]:
    return _extreme(choices, min)


def _extreme(choices: list[set[float | None]], pick: Any) -> set[float | None]:
    found: set[float | None] = {None}
    for some in choices:
        found = {b if a is None else a if b is None else pick(a, b) for a in found for b in some}
    return found


def scope_words(scope: Scope) -> str:
    words = "all partitions" if scope.place is None else str(scope.place)
    words += "" if scope.producer is None else f" for producer {scope.producer}"
    return words + ("" if scope.group is None else f" for {scope.group}")
