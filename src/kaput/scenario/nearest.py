"""Suggests the nearest valid words in messages about invalid ones."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher

_PARTS = re.compile("[-. ]")
_MISSPELT = 0.8  # two words that are alike to this degree are one word and a slip


def hint(word: str, valid: Iterable[str]) -> str:
    """`did you mean acks?`, or the list of valid words if none is near."""
    options = list(valid)
    near = nearest(word, options)
    if near:
        return f"did you mean {' or '.join(near)}?"
    return f"write {' or '.join(options)}" if len(options) < 3 else f"choose from {', '.join(options)}"


def nearest(word: str, valid: Iterable[str], count: int = 1, cutoff: float = 0.6) -> list[str]:
    """Up to `count` of the valid words, nearest first; ignores case and the order of a word's parts. Of
    compound words, only those with a part in common, if perhaps misspelt: `elect-leader` is not meant to be
    `delete-records`.
    """
    lowered = word.lower().replace("_", "-")
    scored = [
        (_likeness(lowered, option.lower().replace("_", "-")), option) for option in dict.fromkeys(valid)
    ]
    close = [(score, option) for score, option in scored if score >= cutoff]
    return [option for _, option in sorted(close, key=lambda each: (-each[0], each[1]))][:count]


def _likeness(word: str, other: str) -> float:
    """From 0 to 1."""
    parts, others = _PARTS.split(word), _PARTS.split(other)
    whole = max(_alike(word, other), _alike("-".join(sorted(parts)), "-".join(sorted(others))))
    if whole >= _MISSPELT or len(parts) == len(others) == 1:
        return whole
    pairs = ((one, two) for one in parts for two in others if min(len(one), len(two)) > 2)
    return whole if any(_alike(one, two) >= _MISSPELT for one, two in pairs) else 0.0


def _alike(one: str, two: str) -> float:
    if one != two and sorted(one) == sorted(two):  # rnu
        return _MISSPELT
    # Autojunk ignores frequent letters of long words; a quick upper bound first.
    matcher = SequenceMatcher(None, one, two, autojunk=False)
    return matcher.ratio() if matcher.real_quick_ratio() > 0.5 else 0.0
