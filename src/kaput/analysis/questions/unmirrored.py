"""unmirrored: acknowledged at home, its topic copied by a mirror from there, and no copy of it in the target
of that mirror, which was read to its end. Counted as messages, for each mirror.

Asked of a mirror that ever ran. Why a copy is missing is one of CAUSES, the first that holds:
not-retained: the source itself does not have the message, which is ruled on there. after-end: it was
acknowledged after the mirror had ended for good. unexplained: the mirror
had everything of the partition beyond that offset, or of all at the end. stopped: it was stopped for good.
fault: it was killed for good, or a fault took effect, and it did not come as far any more. behind: it ran,
and had not come as far.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from kaput.analysis.engine.question import Check, Find, Part, Question, Section, facts
from kaput.analysis.engine.sums import Sum
from kaput.analysis.engine.words import message
from kaput.analysis.runs.columns import ACKED, MESSAGE
from kaput.analysis.runs.cutting import single
from kaput.analysis.runs.names import SHIFT
from kaput.analysis.runs.run import MOVES, NULL
from kaput.core import FOREVER_NS
from kaput.verdict.contracts import Ruling
from kaput.verdict.rules import Grounds, Ruled, VerdictRule

if TYPE_CHECKING:
    from kaput.analysis.facts.mirrors import MirrorFacts
    from kaput.analysis.run import Run
    from kaput.analysis.views.messages import Messages

AFTER_END = "after-end"
_RULINGS: Mapping[str, Ruling] = {
    "not-retained": Ruling("permitted", "the source does not have them either, so there was nothing to copy"),
    AFTER_END: Ruling("permitted", "the mirror had ended before they were acknowledged"),
    "unexplained": Ruling("violation", "the mirror had copied what follows them in their partition"),
    "stopped": Ruling("permitted", "an asynchronous mirror that is stopped promises nothing of the rest"),
    "fault": Ruling("permitted", "an asynchronous mirror promises nothing that a fault kept it from copying"),
    "behind": Ruling("unclear", "the mirror was still running, and had not come as far"),
}
CAUSES = tuple(_RULINGS)


def _missing(known: Grounds) -> Ruled:
    return ((_RULINGS[cause], n) for cause, n in sorted(known.facts.unmirrored.items()))


@dataclass(frozen=True)
class Unmirrored(Question):
    """By mirror: `mirrors`."""

    mirrors: Sequence[MirrorFacts] = ()

    sums = {"mirrored": Sum(("mirror", "fate"), ("n",), ("first_ns",))}
    stories = {
        "unmirrored": lambda r: (
            f"{message(r)} was acknowledged, and {r['mirror'].split('->')[1]} has no copy of it "
            f"({r['mirror']}: {r['fate']})"
        )
    }
    rules = {"unmirrored": VerdictRule("acknowledged messages are not in a mirror's target", _missing)}
    shown_by = MESSAGE

    def before_messages(self, run: Run) -> Unmirrored:
        """The mirrors that ever ran."""
        return replace(self, mirrors=[mirror for mirror in run.mirrors if mirror.started])

    def of_messages(self, messages: Messages) -> Iterator[Find]:
        """Of each mirror: what it copied, and what it did not, by cause."""
        found = [_none(messages)]
        found += [fates(messages, mirror) for mirror in self.mirrors]
        every = pl.concat(found)
        yield Part("mirrored", every.select("mirror", "fate", "n", first_ns="done_ns_first"))
        yield messages.case("unmirrored", every.filter(pl.col("fate").is_in(CAUSES)))

    def report(self, run: Run) -> Iterator[Section]:
        """By cause, over all mirrors."""
        yield facts(unmirrored=dict(_by_cause(run)))

    def checks(self, run: Run) -> Iterator[Check]:
        """Each has a cause."""
        by_cause = sum(_by_cause(run).values())
        yield Check("unmirrored", run.totals.counted("unmirrored"), by_cause, ("case", "cause"))


def _by_cause(run: Run) -> Counter[str]:
    found: Counter[str] = Counter()
    for fate, n in run.sums["mirrored"].select("fate", "n").iter_rows():
        found[fate] += n if fate in CAUSES else 0
    return +found


def _none(messages: Messages) -> pl.DataFrame:
    none = messages.stretches.clear()
    return none.with_columns(mirror=pl.lit("", pl.String), fate=pl.lit("", pl.String))


def fates(messages: Messages, mirror: MirrorFacts) -> pl.DataFrame:
    """The acknowledged stretches of the topics that a mirror copies, with `mirror` and `fate`: mirrored, one
    of CAUSES, or unread where the target was not read to its end.
    """
    known = messages.known
    own = messages.stretches.filter(
        ACKED, ~pl.col("uncommitted"), ~pl.col("unread"), pl.col("home_topic").is_in(list(mirror.topics))
    )
    targets = [n for n, cluster in enumerate(known.names.clusters) if cluster == mirror.target]
    there = messages.copies.filter((pl.col("place") // SHIFT).is_in(targets), "visible")["part"].unique()
    copies = {topic: -1 if copy is None else copy for topic, copy in mirror.topics.items()}
    copy = pl.col("home_topic").replace_strict(copies, return_dtype=pl.Int64, default=-1)
    place = copy * SHIFT + pl.col("first_place") % SHIFT
    drained = place.replace_strict(dict(mirror.drained_to), return_dtype=pl.Int64, default=0)
    mirrored = pl.col("part").is_in(there.implode())
    own = _cut_at(own.with_columns(drained=pl.when(~mirrored).then(drained)), messages)
    own = _apart(own, ~mirrored, mirror.ended_ns, messages)
    late = pl.lit(False) if mirror.ended_ns is None else pl.col("done_ns_first") > mirror.ended_ns
    fate = (
        pl.when(mirrored)
        .then(pl.lit("mirrored"))
        .when(~copy.is_in(sorted(known.complete_topics)))
        .then(pl.lit("unread"))
        .when(pl.col("stored") == 0)
        .then(pl.lit("not-retained"))
        .when(late.fill_null(False))
        .then(pl.lit(AFTER_END))
        .when((pl.col("first_offset") < pl.col("drained")) | pl.lit(mirror.drained))
        .then(pl.lit("unexplained"))
        .otherwise(pl.lit(mirror.ended or ("fault" if mirror.broken else "behind")))
    )
    return own.with_columns(mirror=pl.lit(mirror.name), fate=fate).drop("drained")


def _cut_at(stretches: pl.DataFrame, messages: Messages) -> pl.DataFrame:
    """The stretches, cut at the offset `drained` where that is within one."""
    first, n = pl.col("first_offset"), pl.col("n")
    within = ((pl.col("drained") > first) & (pl.col("drained") < first + n)).fill_null(False)
    cut = stretches.filter(within).with_columns(below=pl.col("drained") - first)
    if cut.is_empty():
        return stretches
    moved = [pl.col(name) + pl.col("below") for name in MOVES if name in cut.columns]
    above = cut.with_columns(*moved, n=n - pl.col("below"))
    parts = pl.concat([cut.with_columns(n="below"), above]).drop("below")
    dones = np.where(messages.times["dones"] == NULL, FOREVER_NS, messages.times["dones"])
    spans = parts.select("row", "n").iter_rows()
    firsts = [int(dones[row : row + n].min()) for row, n in spans]
    done = pl.Series("done_ns_first", firsts, pl.Int64).replace(FOREVER_NS, None)
    return pl.concat([stretches.filter(~within), parts.with_columns(done)])


def _apart(own: pl.DataFrame, which: pl.Expr, end_ns: int | None, messages: Messages) -> pl.DataFrame:
    """The stretches, those one by one that were acknowledged in part before this moment, in part after it."""
    if end_ns is None:
        return own
    split = which & (pl.col("done_ns_first") <= end_ns) & (pl.col("done_ns_last") > end_ns)
    split = split.fill_null(False)
    each = single(own.filter(split))
    done = messages.times["dones"][each["row"].to_numpy()]
    known = pl.Series(done, dtype=pl.Int64).replace(NULL, None)
    return pl.concat([own.filter(~split), each.with_columns(done_ns_first=known)])
