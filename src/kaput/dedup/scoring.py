"""Scores filters against the truth: which message each delivery is a copy of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kaput.dedup.filter import Filter
from kaput.dedup.traffic import CLAIM, Delivery


class Score(NamedTuple):
    """`passed`: effects after the first one of their message; `dropped`: messages without an effect."""

    passed: int = 0
    dropped: int = 0


def first_copies(deliveries: Iterable[Delivery]) -> list[bool]:
    """For each delivery, whether it is the first of its message."""
    seen: set[int] = set()
    found = []
    for one in deliveries:
        found.append(one.message not in seen)
        seen.add(one.message)
    return found


def decisions(accepts: Filter, deliveries: Sequence[Delivery]) -> list[bool]:
    """For each delivery, whether the filter considers it new."""
    found = []
    for one in deliveries:
        found.append(accepts.is_new(one.record))
        accepts.mark(one.record)
    accepts.commit()
    return found


def score(deliveries: Sequence[Delivery], effects: Iterable[int]) -> Score:
    """The score of `effects`: the messages whose effect was run, once for each run.

    It does not matter which copy of a message passes: a fenced producer's is dropped correctly if the next
    producer's passes.
    """
    times = Counter(effects)
    del times[CLAIM]
    return Score(
        passed=sum(count - 1 for count in times.values()),
        dropped=len({one.message for one in deliveries} - times.keys() - {CLAIM}),
    )


def score_of(accepts: Filter, deliveries: Sequence[Delivery]) -> Score:
    """The score of a filter that reads all deliveries without a crash."""
    new = decisions(accepts, deliveries)
    return score(deliveries, (one.message for one, is_new in zip(deliveries, new, strict=True) if is_new))
