"""reordered, defined in docs/GLOSSARY.md. Messages that a store had are counted separately (`replay`), also
by whether a later message with the same key is before them, if their producer keeps the order of keys.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from kaput.analysis.engine.question import (
    Cases,
    Check,
    Find,
    Question,
    Reported,
    SumPart,
    anomaly,
    at,
    facts,
    message,
)
from kaput.analysis.engine.sums import Collected, Sum
from kaput.analysis.run import Run
from kaput.analysis.runs.columns import MESSAGE, NAMED, RECORD, key_of
from kaput.analysis.runs.cutting import MESSAGES, PLACES, STREAMS, Axis, meeting, overlay, single
from kaput.analysis.runs.run import in_order
from kaput.analysis.runs.tables import Extents
from kaput.analysis.views.places import Places
from kaput.analysis.views.rows import Sends
from kaput.core import FOREVER_NS
from kaput.verdict.contracts import on_reordered
from kaput.verdict.facts import Reordered
from kaput.verdict.rules import Grounds, Ruled, VerdictRule

_LATE = ("producer", "seq", "n", "place", "offset", "epoch", "top", "top_epoch", "replay", "by_key")
_DIFFER = (pl.col("epoch") != pl.col("top_epoch")).fill_null(False)


def _reordered_rulings(known: Grounds) -> Ruled:
    for one in known.facts.reordered:
        ruling = on_reordered(known.scenario, one)
        yield known.limits.on_reordered(ruling, one, bool(known.facts.leader_changes)), one.count


@dataclass(frozen=True)
class StorageOrder(Question):
    """`open`: stretches of reordered messages for which it is unknown whether the leader changed in between;
    `elections`: by place, the times of elections, ascending.
    """

    open: pl.DataFrame | None = None
    elections: Mapping[int, Sequence[int]] = field(default_factory=dict)

    sums = {"late": Collected(_LATE), "across": Sum(("producer",), ("n",))}
    stories = {
        "reordered": lambda r: (
            f"{message(r)} is at {at(r)}, after message {r['other_seq']:,} of the same producer"
            + ("; a store kept it" if r.get("replay") else "")
        )
    }
    rules = {
        "reordered": VerdictRule(
            "{messages are|message is} stored after later ones of the same producer", _reordered_rulings
        )
    }
    shown_by = MESSAGE

    def of_places(self, places: Places) -> Iterator[Find]:
        others = [places.tables[name].select(*RECORD, "n") for name in ("phantoms", "mirrored_copies")]
        copies = _sent(places.log, pl.concat(others))
        late = reordered(copies)
        if late.height:
            late = by_replay(late, places.tables["kept_copies"])
            yield SumPart("late", by_key(late, copies, places.known.ordered).select(_LATE))

    def after_places(self, run: Run) -> Iterator[Find]:
        """The cases. A message that is late in two places counts once, in the first."""
        if run.sums["late"].is_empty():
            return
        run.sums["late"] = late = unique_messages(run.sums["late"])
        yield Cases("reordered", late, lambda few: few.rename({"top": "other_seq"}))

    def before_sends(self, run: Run) -> StorageOrder | None:
        """Asks once, if sends may tell whether the leader changed in between."""
        elections = {
            run.names.code(place): led
            for place, changes in run.leader_history.changes.items()
            if (led := [change.at_ns for change in changes if change.is_election])
        }
        asked = run.sums["late"].filter(~_DIFFER, ~pl.col("replay"), pl.col("place").is_in(list(elections)))
        known = self.open is not None or asked.is_empty()
        return None if known else replace(self, open=asked, elections=elections)

    def wants(self, extents: Extents) -> bool:
        """Whether a row group may have messages of `open`."""
        assert self.open is not None, "before_sends has filled it in"
        span = self.open.select(pl.col("seq").min(), end=(pl.col("seq") + pl.col("n") - 1).max()).row(0)
        return extents.meets("seq", span)

    def of_sends(self, sends: Sends) -> Iterator[Find]:
        """By producer, messages of whose partition a leader was elected between attempt and outcome."""
        assert self.open is not None, "before_sends has filled it in"
        yield SumPart("across", across(sends.rows, self.open, self.elections))

    def report(self, run: Run) -> Iterator[Reported | Check]:
        reordered_ = _by_producer(run)
        yield facts(reordered=reordered_)
        by_replay = sum(one.count for one in reordered_ if one.replay)
        yield anomaly("reordered", causes={"replay": by_replay} if by_replay else {})
        cases = run.totals.counted("reordered")
        yield Check("reordered", cases, sum(one.count for one in reordered_), ("case", "producer"))


def _by_producer(run: Run) -> list[Reordered]:
    counts: Counter[tuple[int, bool, bool, bool]] = Counter()
    columns = ("producer", _DIFFER.alias("over"), "replay", "by_key", "n")
    for *kind, n in run.sums["late"].select(columns).iter_rows():
        counts[tuple(kind)] += n
    for producer, n in run.sums["across"].iter_rows():
        counts[producer, False, False, False] -= n
        counts[producer, True, False, False] += n
    return [
        Reordered(producer, n, over, replay, key)
        for (producer, over, replay, key), n in sorted(counts.items())
        if n
    ]


def by_replay(late: pl.DataFrame, kept: pl.DataFrame) -> pl.DataFrame:
    """The late messages with `replay`: whether a store had them."""
    parts, copies = overlay([late, kept], MESSAGES)
    copies = copies.select("part", "place", replay=True).unique()
    flagged = parts.join(copies, on=["part", "place"], how="left").drop("part")
    return flagged.with_columns(pl.col("replay").fill_null(False))


def by_key(late: pl.DataFrame, copies: pl.DataFrame, ordered: Mapping[int, int]) -> pl.DataFrame:
    """The late messages with `by_key`: whether a later one with the same key is before them. Determined only
    for replayed ones whose producer keeps the order of keys. `ordered`: see Known.
    """
    asked = pl.col("replay") & pl.col("producer").is_in(list(ordered))
    rest, mine = late.filter(~asked).with_columns(by_key=False), late.filter(asked)
    if mine.is_empty():
        return rest
    streams = copies.join(mine.select(_STREAM).unique(), on=_STREAM, how="semi")
    first = (
        single(streams)
        .sort("offset")
        .unique([*_STREAM, "seq"], keep="first")
        .with_columns(key=key_of(ordered))
    )
    before = pl.col("seq").cum_max().shift(1).over(*_STREAM, "key")
    overtaken = first.sort("offset").filter((pl.col("seq") < before).fill_null(False))
    overtaken = overtaken.select(*_STREAM, "seq", by_key=True)
    flagged = single(mine).join(overtaken, on=[*_STREAM, "seq"], how="left")
    return pl.concat([rest, flagged.with_columns(pl.col("by_key").fill_null(False)).select(rest.columns)])


def across(rows: pl.DataFrame, late: pl.DataFrame, elections: Mapping[int, Sequence[int]]) -> pl.DataFrame:
    """(producer, n): the late messages with an election between attempt and outcome."""
    late = late.select("producer", begin="seq", end=pl.col("seq") + pl.col("n"), late_at="place")
    mine = rows.sort("seq").join_asof(
        late.sort("begin"), left_on="seq", right_on="begin", by="producer", check_sortedness=False
    )
    mine = mine.filter(pl.col("seq") < pl.col("end"))
    changed = np.zeros(mine.height, bool)
    for place, led in elections.items():
        here = (mine["late_at"] == place).to_numpy()
        since = mine["attempt_ns"].to_numpy()[here]
        until = mine["done_ns"].fill_null(FOREVER_NS).to_numpy()[here]
        moments = np.array(led, np.int64)
        # An election at the time of the attempt or of the outcome may have been in between.
        changed[here] = np.searchsorted(moments, until, "right") > np.searchsorted(moments, since, "left")
    return mine.filter(pl.Series(changed, dtype=pl.Boolean)).select("producer", n=pl.lit(1, pl.Int64))


def _sent(log: pl.DataFrame, phantoms: pl.DataFrame) -> pl.DataFrame:
    """The visible messages of the log, without `phantoms` (here also mirrored copies)."""
    known = log.filter(NAMED, "visible")
    if phantoms.is_empty():
        return known
    # Runs at other offsets are left as they are.
    touched = meeting(known, phantoms, PLACES)
    whole = ["place", "offset", *MESSAGE, "n", "epoch"]
    rest = known.join(touched.select(whole), on=whole, how="anti", nulls_equal=True)
    parts, others = overlay([touched, phantoms], PLACES)
    sent = parts.join(others, on=["part", *MESSAGE], how="anti")
    return pl.concat([rest, sent.drop("part")])


_STREAM = list(STREAMS.keys)
_OFFSETS = Axis(STREAMS.keys, "offset")
_LAST = pl.col("seq") + pl.col("n") - 1


def reordered(copies: pl.DataFrame) -> pl.DataFrame:
    """(producer, seq, n, place, offset, epoch, top, top_epoch): stretches of reordered messages, with the
    highest message before them and its epoch. `copies`: runs of the log's messages that were sent.
    """
    behind = _not_above(copies)
    if behind.is_empty():
        columns = (*_STREAM, "seq", "offset", "epoch", "n", "top", "top_epoch")
        return pl.DataFrame(schema=dict.fromkeys(columns, pl.Int64))
    # Only runs that share messages with these can tell whether a copy is the first.
    (cut,) = overlay([meeting(copies, behind, STREAMS)], STREAMS)
    first = (
        cut.sort("offset")
        .unique("part", keep="first", maintain_order=True)
        .select(*_STREAM, "seq", "offset", "epoch", "n")
    )
    late, tops = overlay([first, behind], _OFFSETS)
    late = late.join(tops.select("part", "seq", "top"), on=["part", "seq"]).drop("part")
    # A run that contains the top again was cut there.
    late = late.filter(pl.col("seq") < pl.col("top"))
    return late.join(_epochs(copies, late.select(*_STREAM, "top").unique()), on=[*_STREAM, "top"], how="left")


def _epochs(copies: pl.DataFrame, tops: pl.DataFrame) -> pl.DataFrame:
    """(producer, place, top, top_epoch): the epoch of the first copy of each message."""
    asked = tops.select(*_STREAM, seq="top", n=pl.lit(1, pl.Int64))
    parts, _ = overlay([meeting(copies, asked, STREAMS), asked], STREAMS)
    first = parts.sort("offset").unique("part", keep="first", maintain_order=True)
    return first.select(*_STREAM, top="seq", top_epoch="epoch")


def _not_above(copies: pl.DataFrame) -> pl.DataFrame:
    """Runs, or single rows, not above everything before them in their stream; `top`: the highest there."""
    ordered = in_order(copies, [*_STREAM, "offset"])
    end = (pl.col("offset") + pl.col("n")).cum_max().shift(1).over(_STREAM)
    shares = ordered.select((pl.col("offset") < end).fill_null(False)).to_series()
    if shares.any():
        # Where messages of a producer share offsets, compare them one by one.
        both = meeting(ordered, ordered.filter(shares), _OFFSETS)
        same = [*_STREAM, "seq", "offset", "n"]
        rest = ordered.join(both.select(same), on=same, how="anti", nulls_equal=True)
        ordered = pl.concat([rest, single(both)]).sort(*_STREAM, "offset")
    top = _LAST.cum_max().shift(1).over(_STREAM)
    if not shares.any():
        return ordered.with_columns(top=top).filter(pl.col("seq") <= pl.col("top"))
    # Messages at the same offset are not before each other.
    before = ordered.group_by(*_STREAM, "offset", maintain_order=True).agg(_LAST.max().alias("top"))
    before = before.with_columns(pl.col("top").cum_max().shift(1).over(_STREAM))
    with_top = ordered.join(before, on=[*_STREAM, "offset"], how="left", maintain_order="left")
    return with_top.filter(pl.col("seq") <= pl.col("top"))


def unique_messages(late: pl.DataFrame) -> pl.DataFrame:
    """The reordered messages of all places as stretches; one late in two places counts in the first."""
    (parts,) = overlay([late], MESSAGES)
    return parts.sort("place", "offset").unique("part", keep="first", maintain_order=True).drop("part")
