"""The cost of failing back: messages that a group skips because the cluster it comes back from never had
them.

They were stored in the cluster that it returns to, and the mirror had not copied them when clients moved
away. A position in the other cluster does not account for them, and its translation is above them, since what
was copied back is stored after them. So the group never receives them. That follows from their being
unmirrored (or would, if they had been acknowledged), and is ruled like that (unmirrored.py). Used by
translated_ahead.py and unseen.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import polars as pl

from kaput.analysis.facts.mirrors import MirrorFacts, Translated
from kaput.analysis.questions.unmirrored import RULINGS, UNREAD, fates
from kaput.analysis.runs.columns import MESSAGE
from kaput.analysis.runs.cutting import MESSAGES, overlay
from kaput.verdict.contracts import Ruling

if TYPE_CHECKING:
    from kaput.analysis.views.messages import Messages

_NEVER_HAD_TEXT = "the cluster that the group came back from never had them"
_UNREAD = Ruling("unclear", "the cluster that the group came back from was not read to its end")
_COST_TYPES = {**dict.fromkeys(("group", *MESSAGE, "n"), pl.Int64), "fate": pl.String}


def costs(
    messages: Messages, moves: Sequence[Translated], mirrors: Sequence[MirrorFacts], skipped: pl.DataFrame
) -> pl.DataFrame:
    """Of `skipped` (translations.py: never_given), the messages that were unmirrored, and why:
    _COST_TYPES.
    """
    found = [pl.DataFrame(schema=_COST_TYPES)]
    for mirror in mirrors:
        way_back = f"{mirror.target}->{mirror.source}"
        numbers = [number for number, move in enumerate(moves) if move.mirror == way_back]
        back = skipped.filter(pl.col("move").is_in(numbers))
        if back.is_empty():
            continue
        why = fates(messages, mirror, pl.col("stored") > 0).filter(pl.col("fate").is_in([*RULINGS, UNREAD]))
        parts, why = overlay([back, why.select(*MESSAGE, "n", "fate")], MESSAGES)
        found.append(parts.join(why.select("part", "fate"), on="part").select(*_COST_TYPES))
    return pl.concat(found)


def rulings(by_cause: Mapping[str, int]) -> Iterator[tuple[Ruling, int]]:
    """The ruling and number of each cause."""
    for cause, n in sorted(by_cause.items()):
        if cause == UNREAD:
            yield _UNREAD, n
        else:
            word, why = RULINGS[cause]
            yield Ruling(word, f"{_NEVER_HAD_TEXT} (unmirrored, {cause}): {why}"), n
