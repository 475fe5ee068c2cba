"""Command lines of `fault: command` with placeholders such as {broker}: checks them and fills in values."""

from __future__ import annotations

import re
import shlex

from kaput.scenario.clients import no_command_line
from kaput.scenario.nearest import nearest
from kaput.scenario.values import target_partition

PLACEHOLDERS = ("broker", "host", "port", "topic", "partition")
_OF_PARTITIONS = ("topic", "partition")
_BRACED = re.compile(r"\{(\w+)\}")


def mistakes_in(line: str, target: str) -> list[str]:
    """Mistakes in a command for that target."""
    if wrong := no_command_line(line):
        return [wrong]
    found = []
    for word in _BRACED.findall(line):
        if word in _OF_PARTITIONS and target_partition(target) is None:
            found.append(f"{{{word}}} exists only for targets such as leader-of T/P")
        # Other braces belong to the command, unless one looks like a typo of a placeholder.
        elif word not in PLACEHOLDERS and (near := nearest(word, PLACEHOLDERS)):
            found.append(f"there is no placeholder {{{word}}}; did you mean {{{near[0]}}}?")
    return found


def filled_in(line: str, known: dict[str, str]) -> list[str]:
    """The words of a command line, with values for placeholders such as `{broker}`.

    Values are filled in word by word: they are never split, and no shell interprets them.
    """
    return [_BRACED.sub(lambda found: known.get(found[1], found[0]), word) for word in shlex.split(line)]
