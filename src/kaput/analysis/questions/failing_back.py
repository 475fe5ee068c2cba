"""The cost of failing back: messages that a group skips because the cluster it comes back from never had
them.

They were stored in the cluster that it returns to before producers came back there, and the mirror had not
copied them when clients moved away. A position in the other cluster does not account for them, and its
translation is above them, since what was copied back is stored after them. So the group never receives them.
That follows from their being unmirrored (or would, if they had been acknowledged), and is ruled like that
(unmirrored.py). Used by translated_ahead.py and unseen.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import polars as pl

from kaput.analysis.facts.mirrors import MirrorFacts, Translated
from kaput.analysis.questions.unmirrored import RULINGS, UNREAD, fates
from kaput.analysis.runs.columns import MESSAGE
from kaput.analysis.runs.cutting import MESSAGES, overlay, single
from kaput.verdict.contracts import Ruling

if TYPE_CHECKING:
    from kaput.analysis.run import Run
    from kaput.analysis.views.messages import Messages

_NEVER_HAD_TEXT = "the cluster that the group came back from never had them"
_UNREAD = Ruling("unclear", "the cluster that the group came back from was not read to its end")
_COST_TYPES = {**dict.fromkeys(("group", *MESSAGE, "n"), pl.Int64), "fate": pl.String}


def returned_ns(run: Run) -> dict[int, int]:
    """By move: from when on messages are new in the cluster to which the group came: the last attempt that
    any producer made in the cluster that it left, and not after the move itself.
    """
    ends = {f"{mirror.source}->{mirror.target}": mirror.source for mirror in run.mirrors}
    last: dict[str | None, int] = {}
    for topic, at_ns in run.sums["sent"].select("topic", "last_attempt_ns").drop_nulls().iter_rows():
        cluster = run.names.clusters[topic]
        last[cluster] = max(at_ns, last.get(cluster, at_ns))
    return {
        number: min(last.get(ends.get(move.mirror), move.at_ns), move.at_ns)
        for number, move in enumerate(run.translated)
    }


def costs(
    messages: Messages,
    moves: Sequence[Translated],
    mirrors: Sequence[MirrorFacts],
    skipped: pl.DataFrame,
    returned: Mapping[int, int],
) -> pl.DataFrame:
    """Of `skipped` (translations.py: never_given), the messages that were unmirrored, and why:
    _COST_TYPES. `returned`: of `returned_ns`; what was attempted later is new, and no cost.
    """
    found = [pl.DataFrame(schema=_COST_TYPES)]
    for mirror in mirrors:
        way_back = f"{mirror.target}->{mirror.source}"
        numbers = [number for number, move in enumerate(moves) if move.mirror == way_back]
        back = skipped.filter(pl.col("move").is_in(numbers))
        if back.is_empty():
            continue
        why = fates(messages, mirror, pl.col("stored") > 0).filter(pl.col("fate").is_in([*RULINGS, UNREAD]))
        until_ns = max(returned[number] for number in numbers)
        why = _attempted_by(until_ns, why, messages)
        parts, why = overlay([back, why.select(*MESSAGE, "n", "fate")], MESSAGES)
        found.append(parts.join(why.select("part", "fate"), on="part").select(*_COST_TYPES))
    return pl.concat(found)


def _attempted_by(until_ns: int, stretches: pl.DataFrame, messages: Messages) -> pl.DataFrame:
    """The messages of stretches that were attempted by then."""
    whole = pl.col("attempt_ns_last") <= until_ns
    each = single(stretches.filter(~whole, pl.col("attempt_ns_first") <= until_ns))
    attempted = messages.times["attempts"][each["row"].to_numpy()]
    return pl.concat([stretches.filter(whole), each.filter(pl.Series(attempted <= until_ns))])


def rulings(by_cause: Mapping[str, int]) -> Iterator[tuple[Ruling, int]]:
    """The ruling and number of each cause."""
    for cause, n in sorted(by_cause.items()):
        if cause == UNREAD:
            yield _UNREAD, n
        else:
            word, why = RULINGS[cause]
            yield Ruling(word, f"{_NEVER_HAD_TEXT} (unmirrored, {cause}): {why}"), n
