"""What failing back costs: messages that the cluster which a group comes back from never had.

They were stored in the cluster that it comes back to, and the mirror had not copied them when clients went
away from there. A position in the other cluster says nothing of them, and its translation is beyond
them: what was copied back lies behind them. So the group is never given them. That follows from their being
unmirrored (or would, if their acknowledgements had come), and has the ruling of that (unmirrored.py), here
and nowhere else. Asked by translated_ahead.py and unseen.py.
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

_NEVER_HAD = "the cluster that the group came back from never had them"
_UNREAD = Ruling("unclear", "the cluster that the group came back from was not read to its end")
_NONE = {**dict.fromkeys(("group", *MESSAGE, "n"), pl.Int64), "fate": pl.String}


def costs(
    messages: Messages, moves: Sequence[Translated], mirrors: Sequence[MirrorFacts], skipped: pl.DataFrame
) -> pl.DataFrame:
    """_NONE of what was skipped (translations.py: never_given): what of it was unmirrored, and why."""
    found = [pl.DataFrame(schema=_NONE)]
    for mirror in mirrors:
        way_back = f"{mirror.target}->{mirror.source}"
        numbers = [number for number, move in enumerate(moves) if move.mirror == way_back]
        back = skipped.filter(pl.col("move").is_in(numbers))
        if back.is_empty():
            continue
        why = fates(messages, mirror, pl.col("stored") > 0).filter(pl.col("fate").is_in([*RULINGS, UNREAD]))
        parts, why = overlay([back, why.select(*MESSAGE, "n", "fate")], MESSAGES)
        found.append(parts.join(why.select("part", "fate"), on="part").select(*_NONE))
    return pl.concat(found)


def rulings(by_cause: Mapping[str, int]) -> Iterator[tuple[Ruling, int]]:
    """How so many of each cause are ruled."""
    for cause, n in sorted(by_cause.items()):
        if cause == UNREAD:
            yield _UNREAD, n
        else:
            word, why = RULINGS[cause]
            yield Ruling(word, f"{_NEVER_HAD} (unmirrored, {cause}): {why}"), n
