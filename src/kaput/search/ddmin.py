"""The smallest part of a list that still does it: Zeller's delta debugging, reducing by complements.

Source: Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", IEEE TSE 28 (2002).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def ddmin(items: Sequence[T], still: Callable[[list[T]], bool]) -> list[T]:
    """A part of `items`, in their order, from which nothing can be left out. `still`: whether a part does it;
    asked of smaller parts alone, never of all. What it raises ends the reduction.
    """
    current, parts = list(items), 2
    if current and still([]):
        return []
    while len(current) > 1:
        size = -(-len(current) // parts)
        chunks = [current[at : at + size] for at in range(0, len(current), size)]
        rests = [[each for other in chunks if other is not chunk for each in other] for chunk in chunks]
        tried = [*chunks, *rests] if len(chunks) > 2 else chunks
        smaller = next((part for part in tried if len(part) < len(current) and still(part)), None)
        if smaller is not None:
            current, parts = smaller, 2
        elif parts < len(current):
            parts = min(len(current), 2 * parts)
        else:
            break
    return current
