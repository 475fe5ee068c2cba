"""Labels of runs in tables and charts, made of the settings that distinguish them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pydantic import JsonValue

from kaput.report.formats import NOTHING

if TYPE_CHECKING:
    from kaput.report.comparison import Entry


def labels(entries: Sequence[Entry]) -> list[str]:
    """A label for each run: its scenario, if there are several, and its varied settings. Repetitions share a
    label; other runs never do.
    """
    several = len({entry.scenario for entry in entries}) > 1
    short = short_names(list(dict.fromkeys(key for entry in entries for key in entry.varied)))
    found: dict[str, str] = {}
    often: Counter[str] = Counter()
    for entry in entries:
        if entry.variant in found:
            continue
        words = [f"{short[key]} {value_of(entry.varied, key)}" for key in entry.varied]
        label = ", ".join([*([entry.scenario] if several or not words else []), *words])
        often[label] += 1
        found[entry.variant] = f"{label} ({often[label]})" if often[label] > 1 else label
    return [found[entry.variant] for entry in entries]


def unique_labels(entries: Sequence[Entry]) -> list[str]:
    """Labels, with the name of the run's folder where several runs share a label."""
    named = labels(entries)
    often = Counter(named)
    return [
        f"{name}, {entry.run}" if often[name] > 1 else name
        for name, entry in zip(named, entries, strict=True)
    ]


def value_of(varied: Mapping[str, JsonValue], key: str) -> str:
    """The value of a varied setting; `-` if it was not varied in this run."""
    if key not in varied:
        return NOTHING
    value = varied[key]
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def short_names(keys: Sequence[str]) -> dict[str, str]:
    """Shortens keys of settings to the shortest suffixes that are distinct; a name below `config` is not
    split.
    """
    ends = {key: _ends(key) for key in keys}
    found = {}
    for key in keys:
        others = [ends[other] for other in keys if other != key]
        longer = (".".join(ends[key][-n:]) for n in range(1, len(ends[key]) + 1))
        found[key] = next(
            (
                short
                for n, short in enumerate(longer, 1)
                if short != "verdict" and not any(other[-n:] == ends[key][-n:] for other in others)
            ),
            key,
        )
    return found


def _ends(key: str) -> list[str]:
    before, config, setting = key.partition(".config.")
    return [*before.split("."), "config", setting] if config else key.split(".")
