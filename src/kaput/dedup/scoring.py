"""What is right, by a set of all messages; and how far a filter is from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kaput.dedup.filter import Filter
from kaput.dedup.traffic import CLAIM, Delivery


class Score(NamedTuple):
    """`passed`: effects beyond the first of their message; `dropped`: messages that never had one."""

    passed: int = 0
    dropped: int = 0


def right(deliveries: Iterable[Delivery]) -> list[bool]:
    """For each delivery whether it is the first of its message."""
    seen: set[int] = set()
    found = []
    for one in deliveries:
        found.append(one.message not in seen)
        seen.add(one.message)
    return found


def decisions(accepts: Filter, deliveries: Sequence[Delivery]) -> list[bool]:
    """For each delivery whether the filter finds it new."""
    found = []
    for one in deliveries:
        found.append(accepts.is_new(one.record))
        accepts.mark(one.record)
    accepts.commit()
    return found


def score(deliveries: Sequence[Delivery], effects: Iterable[int]) -> Score:
    """By the messages whose effects were run, one entry for each time.

    Which copy of a message passes does not matter: that of a fenced producer is dropped rightly, if the next
    producer's passes.
    """
    times = Counter(effects)
    del times[CLAIM]
    return Score(
        passed=sum(count - 1 for count in times.values()),
        dropped=len({one.message for one in deliveries} - times.keys() - {CLAIM}),
    )


def score_of(accepts: Filter, deliveries: Sequence[Delivery]) -> Score:
    """Of a filter that reads all deliveries without a crash."""
    new = decisions(accepts, deliveries)
    return score(deliveries, (one.message for one, is_new in zip(deliveries, new, strict=True) if is_new))
