"""Zeller's delta debugging (ddmin): a minimal sublist that still passes a test.

Source: Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", IEEE TSE 28 (2002).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def ddmin(items: Sequence[T], reproduces: Callable[[list[T]], bool]) -> list[T]:
    """A sublist of `items`, in order, from which no part can be removed. `reproduces`: tests a sublist; it is
    called only for proper sublists. Its exceptions end the reduction.
    """
    current, parts = list(items), 2
    if current and reproduces([]):
        return []
    while len(current) > 1:
        size = -(-len(current) // parts)
        chunks = [current[at : at + size] for at in range(0, len(current), size)]
        rests = [[each for other in chunks if other is not chunk for each in other] for chunk in chunks]
        tried = [*chunks, *rests] if len(chunks) > 2 else chunks
        smaller = next((part for part in tried if len(part) < len(current) and reproduces(part)), None)
        if smaller is not None:
            current, parts = smaller, 2
        elif parts < len(current):
            parts = min(len(current), 2 * parts)
        else:
            break
    return current
