"""The nearest valid word, for every message about a word that is not valid."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def hint(word: str, valid: Iterable[str]) -> str:
    """`did you mean acks?`, or the valid words where none is near."""
    options = list(valid)
    near = nearest(word, options)
    if near:
        return f"did you mean {' or '.join(near)}?"
    return f"write {' or '.join(options)}" if len(options) < 3 else f"choose from {', '.join(options)}"


def nearest(word: str, valid: Iterable[str], count: int = 1, cutoff: float = 0.6) -> list[str]:
    """At most `count` of the valid words, nearest first; upper and lower case make no difference."""
    by_lower = {option.lower(): option for option in valid}
    lowered = word.lower().replace("_", "-")
    return [by_lower[found] for found in get_close_matches(lowered, by_lower, n=count, cutoff=cutoff)]
