"""Groups that were moved to another cluster: which messages they skip, and which they read again.

The position at which a group began there is the row `translated` of the table mirror; the messages are those
with a copy in that partition.

translated-ahead: a message with a copy below that position that was never delivered to the group in any
cluster. Counted as messages, per group. A mirror never translates a position to a later one, so a group may
read messages again but skips none: never permitted, except for the cost of failing back.

translated-behind: a message with a copy at or above that position that had been delivered to the group before
in any cluster: it is read again. Counted as messages, per group. Permitted: translated positions are as exact
as the mirror's offset syncs are dense (offset.lag.max), and groups that lag far behind get coarser ones.

The cost of failing back: messages that a group skips because the cluster it comes back from never had them.
They were stored in the cluster that it returns to before producers came back there, and the mirror had not
copied them when clients moved away. A position in the other cluster does not account for them, and its
translation is above them, since what was copied back is stored after them. So the group never receives them.
That follows from their being unmirrored (or would, if they had been acknowledged), and is ruled like that
(mirrors.py). unseen.py excuses them, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import polars as pl

from kaput.analysis.engine.question import Cases, Find, Question, Reported, SumPart, anomaly
from kaput.analysis.engine.sums import Sum
from kaput.analysis.engine.words import at, message
from kaput.analysis.facts.mirrors import Translated
from kaput.analysis.questions.late_groups import owed
from kaput.analysis.questions.mirrors import RULINGS, UNREAD, fates
from kaput.analysis.runs.columns import MESSAGE, RECORD
from kaput.analysis.runs.cutting import MESSAGES, beyond, overlay, single
from kaput.core import clock
from kaput.verdict.contracts import Ruling
from kaput.verdict.rules import VerdictRule

if TYPE_CHECKING:
    from kaput.analysis.run import Run
    from kaput.analysis.views.messages import Messages


_COLUMNS = ("group", *RECORD, "n", "position", "at_ns", "move")
_TYPES = dict.fromkeys(_COLUMNS, pl.Int64)


def never_given(messages: Messages) -> pl.DataFrame:
    """_COLUMNS (`move`: its index): messages below the positions that were never delivered to the group
    anywhere, except those stored too early for a late group.
    """
    moves, beginnings = messages.known.moves, messages.known.beginnings
    late = set(beginnings["group"]) if moves else set()
    by_move = []
    for number, move in enumerate(moves):
        below = _copies(messages, move).filter(pl.col("offset") < move.offset)
        below = below.with_columns(n=pl.min_horizontal("n", move.offset - pl.col("offset")))
        never = messages.stretches.filter(pl.col(f"delivered_{move.group}") == 0)
        if move.group in late:
            # Only a part of a stretch may be for the group.
            never = never.with_columns(group=pl.lit(move.group, pl.Int64))
            shown, others = never.filter(pl.col("stored") > 0), never.filter(pl.col("stored") == 0)
            for_group = owed(shown, beginnings, messages.times).select(*MESSAGE, "n")
            for_group = pl.concat([for_group, others.select(*MESSAGE, "n")])
            below, never = overlay([below, for_group], MESSAGES)
        by_move.append(_with_move(below.join(never.select("part"), on="part", how="semi"), move, number))
    return _first_moves(by_move)


def given_before(messages: Messages) -> pl.DataFrame:
    """_COLUMNS: messages at or above the positions that had been delivered to the group before, anywhere."""
    by_move = []
    for number, move in enumerate(messages.known.moves):
        above = beyond(_copies(messages, move), "offset", pl.lit(move.offset, pl.Int64))
        for_group = messages.deliveries.filter(pl.col("group") == move.group)
        for_group = single(for_group.join(above.select("part").unique(), on="part", how="semi"))
        polled = pl.Series(messages.polls[for_group["row"].to_numpy()], dtype=pl.Int64)
        already_read = for_group.filter(polled < move.at_ns).select(MESSAGE).unique()
        by_move.append(_with_move(single(above).join(already_read, on=MESSAGE, how="semi"), move, number))
    return _first_moves(by_move)


def _copies(messages: Messages, move: Translated) -> pl.DataFrame:
    copies = messages.copies.filter("sent", "visible", pl.col("place") == move.place)
    return copies.select("part", *RECORD, "n")


def _with_move(rows: pl.DataFrame, move: Translated, number: int) -> pl.DataFrame:
    numbers = {"group": move.group, "position": move.offset, "at_ns": move.at_ns, "move": number}
    return rows.with_columns(**{name: pl.lit(n, pl.Int64) for name, n in numbers.items()}).select(_COLUMNS)


def _first_moves(by_move: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Each message of a group once, for its first move."""
    every = pl.concat([pl.DataFrame(schema=_TYPES), *by_move])
    each = []
    for rows in every.partition_by("group", maintain_order=True):
        (parts,) = overlay([rows], MESSAGES)
        parts = parts.sort("at_ns", "offset", "place")
        each.append(parts.unique("part", keep="first", maintain_order=True).select(_COLUMNS))
    return pl.concat([every.clear(), *each])


_NEVER_HAD_TEXT = "the cluster that the group came back from never had them"
_UNREAD = Ruling("unclear", "the cluster that the group came back from was not read to its end")
_COST_TYPES = {**dict.fromkeys(("group", *MESSAGE, "n"), pl.Int64), "fate": pl.String}


def costs(messages: Messages, skipped: pl.DataFrame) -> pl.DataFrame:
    """Of `skipped` (`never_given`), the messages that were unmirrored, and why: _COST_TYPES. What was
    attempted after producers had returned is new, and no cost.
    """
    known = messages.known
    by_mirror = [pl.DataFrame(schema=_COST_TYPES)]
    for mirror in known.mirrors:
        way_back = f"{mirror.target}->{mirror.source}"
        numbers = [number for number, move in enumerate(known.moves) if move.mirror == way_back]
        back = skipped.filter(pl.col("move").is_in(numbers))
        if back.is_empty():
            continue
        why = fates(messages, mirror, pl.col("stored") > 0).filter(pl.col("fate").is_in([*RULINGS, UNREAD]))
        until_ns = max(known.returned[number] for number in numbers)
        why = _attempted_by(until_ns, why, messages)
        parts, why = overlay([back, why.select(*MESSAGE, "n", "fate")], MESSAGES)
        by_mirror.append(parts.join(why.select("part", "fate"), on="part").select(*_COST_TYPES))
    return pl.concat(by_mirror)


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


class TranslatedAhead(Question):
    """Messages that a moved group skipped."""

    sums = {"ahead_back": Sum(("group", "fate"), ("n",))}
    stories = {
        "translated-ahead": lambda r: (
            f"{message(r)} is at {at(r)}, below {r['position']:,}, where the group began at "
            f"{clock(r['at_ns'])}, and was never delivered to it"
        )
    }
    rules = {
        "translated-ahead": VerdictRule(
            "{messages were|message was} skipped in another cluster",
            lambda known: rulings(known.excused),
            never="{messages are|message is} below the position at which the group began in another cluster, "
            "and it was never delivered {them|it}",
        )
    }
    shown_by = MESSAGE

    def of_messages(self, messages: Messages) -> Iterator[Find]:
        """Cases by group; and the cost of failing back among them, by cause."""
        skipped = never_given(messages)
        yield Cases("translated-ahead", skipped)
        back = costs(messages, skipped)
        yield SumPart("ahead_back", back.select("group", "fate", "n"))

    def report(self, run: Run) -> Iterator[Reported]:
        """The cost of failing back, for the verdict."""
        for index in run.groups:
            back = run.sums["ahead_back"].filter(group=index).select("fate", "n")
            yield anomaly("translated-ahead", index, excused=dict(back.iter_rows()))


_COARSE = Ruling("permitted", "a translated position may be behind the one that the group had")


class TranslatedBehind(Question):
    """Messages that a moved group read again."""

    stories = {
        "translated-behind": lambda r: (
            f"{message(r)} is at {at(r)}, not below {r['position']:,}, where the group began at "
            f"{clock(r['at_ns'])}, and had been delivered to it before"
        )
    }
    rules = {
        "translated-behind": VerdictRule(
            "{messages are|message is} read again in another cluster",
            lambda known: [(_COARSE, known.count)],
        )
    }
    shown_by = MESSAGE

    def of_messages(self, messages: Messages) -> Iterator[Find]:
        """Cases by group."""
        yield Cases("translated-behind", given_before(messages))
