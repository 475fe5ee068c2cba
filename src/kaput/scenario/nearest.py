"""Suggests the nearest valid words in messages about invalid ones."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def hint(word: str, valid: Iterable[str]) -> str:
    """`did you mean acks?`, or the list of valid words if none is near."""
    options = list(valid)
    near = nearest(word, options)
    if near:
        return f"did you mean {' or '.join(near)}?"
    return f"write {' or '.join(options)}" if len(options) < 3 else f"choose from {', '.join(options)}"


def nearest(word: str, valid: Iterable[str], count: int = 1, cutoff: float = 0.6) -> list[str]:
    """Up to `count` of the valid words, nearest first; ignores case."""
    by_lower = {option.lower(): option for option in valid}
    lowered = word.lower().replace("_", "-")
    return [by_lower[found] for found in get_close_matches(lowered, by_lower, n=count, cutoff=cutoff)]
