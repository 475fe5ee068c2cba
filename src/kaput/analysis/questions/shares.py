"""What became of the records of share groups, by what brokers confirmed to their members.

double-accept: more than one accept of a record was confirmed. delivered-after-accept: it was handed out after
an accept was confirmed. over-delivered: with a delivery count above its group's limit. lost-release: it came
back to a drained group, below the limit, and did not go out again; a member that was killed after it came
back may have been handed it without a word of that. Each counted as distinct topic-partition-offsets of
stored records, per group.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import polars as pl

from kaput.analysis.engine.question import Cases, Find, Part, Question, Row, Section, Unclear, group_facts
from kaput.analysis.engine.sums import Kept, Sum
from kaput.analysis.engine.words import at, poll
from kaput.analysis.runs.clocks import GONE
from kaput.analysis.runs.columns import NAMED
from kaput.analysis.runs.cutting import PLACES, READ, covered, meeting, overlay
from kaput.core import clock
from kaput.evidence.schemas import SHARE_EVENT_KINDS
from kaput.scenario.anomalies import ANOMALIES
from kaput.verdict.contracts import Ruling
from kaput.verdict.rules import Grounds, Ruled, VerdictRule

if TYPE_CHECKING:
    from kaput.analysis.run import Run
    from kaput.analysis.views.places import Places, Stored
    from kaput.analysis.views.rows import Rows


def _is(*kinds: str) -> pl.Expr:
    return pl.col("kind").is_in([SHARE_EVENT_KINDS.index(kind) for kind in kinds])


HANDED = ("group", "producer", "seq", "n")
_ACQUIRED, _ACCEPTED = _is("acquired"), _is("accepted")
_SETTLED = _is("accepted", "rejected")
_RELEASING = _is("releasing", "released")
# Whoever asked for one of these may have been heard, unless it was handed out again afterwards. That an ask
# failed tells nothing of its own: it was for this, or for a release, or from before it was handed out again.
_SETTLING = _is("accepting", "accepted", "rejecting", "rejected")


def _lost_release(row: Row) -> str:
    return (
        f"{poll(row)} with delivery count {row['times']:,} (the limit is {row['limit']:,}), neither accepted "
        "nor rejected it, and nobody received it again"
    )


def _unnoticed(known: Grounds) -> Ruled:
    why = "a member that was killed may have been handed them once more, for the last time"
    yield Ruling("unclear", why), known.group.unnoticed if known.group else 0


@dataclass(frozen=True)
class Shares(Question):
    """`locks`: by share group of the scenario, how long a member may hold a record (ns)."""

    locks: Mapping[int, int] = field(default_factory=dict)

    sums = {
        "shared": Sum(("group", "member", "kind"), ("records",)),
        "acquired": Sum(("group", "place"), (), ("low", "first_ns")),
        "handed_unrecorded": Kept(HANDED),
    }
    stories = {
        "double-accept": lambda r: (
            f"{at(r)} was accepted {r['times']:,} times, the first time confirmed at "
            f"{clock(r['accepted_ns'])}"
        ),
        "delivered-after-accept": lambda r: (
            f"{poll(r)}, although its accept had been confirmed at {clock(r['accepted_ns'])}"
        ),
        "over-delivered": lambda r: (
            f"{at(r)} was delivered with delivery count {r['times']:,}, above the limit of {r['limit']:,}"
        ),
        "lost-release": _lost_release,
    }
    rules = {
        "lost-release": VerdictRule(str(ANOMALIES["lost-release"].never), _unnoticed, uncounted=True),
    }

    def of_rows(self, rows: Rows) -> Iterator[Find]:
        """What each member did with how many records."""
        if rows.table == "share_events":
            runs = rows.coded.runs
            yield Part("shared", runs.rename({"n": "records"}))
            acquired = runs.filter(_ACQUIRED)
            yield Part("acquired", acquired.rename({"offset": "low", "at_ns": "first_ns"}))

    def before_stored(self, run: Run) -> Shares | None:
        """Where any share group tells of its records."""
        return None if run.sums["shared"].is_empty() else self

    def of_stored(self, stored: Stored) -> Iterator[Find]:
        """What was handed out without a delivery on record."""
        found = handed_unrecorded(stored.share_events, stored.log, stored.deliveries)
        yield Part("handed_unrecorded", found)

    def before_places(self, run: Run) -> Shares:
        """How long members may hold records."""
        given = run.given
        scenario = given.scenario
        groups = [g for g in scenario.workload.groups if g.type == "share"] if scenario else []
        return replace(
            self,
            locks={given.groups.index(g.id): scenario.lock_ms(g) * 1_000_000 for g in groups if scenario},
        )

    def of_places(self, places: Places) -> Iterator[Find]:
        """All of them; of lost releases those apart that a killed member may have had."""
        known = places.known
        found = cases(places.log, places.share_events, known.share_groups, known.drained)
        unnoticed = handed_unnoticed(found["lost-release"], known.events, self.locks)
        found["lost-release"] = found["lost-release"].join(unnoticed, on=READ.columns, how="anti")
        for name, rows in found.items():
            yield Cases(name, rows)
        yield Unclear("lost-release", unnoticed)

    def report(self, run: Run) -> Iterator[Section]:
        """What remains unknown."""
        shared = set(run.sums["shared"]["group"])
        delivered = set(run.sums["delivered"]["group"])
        for index in run.groups:
            share = run.given.types[index] == "share"
            yield group_facts(
                index,
                unrecorded=share and index not in shared and index in delivered,
                unnoticed=run.totals.unclear["lost-release", index],
            )


def records(events: pl.DataFrame, log: pl.DataFrame) -> pl.DataFrame:
    """(group, place, offset, n, ...): stretches of stored records with the same story in a group.

    accepts: how often accepted, accepted_ns: when first; acquired_ns, member, last_count: the last time that
    they were handed out, to whom (of several the first by name), with which delivery count; count: the
    greatest; settled: whether an accept or reject was confirmed; settling_ns: when one was last asked for;
    released_ns: when a release was first asked for since they were handed out last. `events`: runs of
    share_events.
    """
    stored = events.select(READ.keys).unique().join(covered(log, PLACES), on="place")
    parts, there = overlay([events, stored], READ)
    last_ns = pl.col("at_ns").filter(_ACQUIRED).max()
    last = _ACQUIRED & (pl.col("at_ns") == last_ns)
    handed = parts.join(there, on="part", how="semi").group_by("part")
    return handed.agg(
        pl.col(*READ.columns, "n").first(),
        accepts=_ACCEPTED.sum().cast(pl.Int64),
        accepted_ns=pl.col("at_ns").filter(_ACCEPTED).min(),
        acquired_ns=last_ns,
        released_ns=pl.col("at_ns").filter(_RELEASING & (pl.col("at_ns") >= last_ns)).min(),
        member=pl.col("member").filter(last).min(),
        last_count=pl.col("delivery_count").filter(last).max(),
        count=pl.col("delivery_count").filter(_ACQUIRED).max(),
        settled=_SETTLED.any(),
        settling_ns=pl.col("at_ns").filter(_SETTLING).max(),
    )


def cases(
    log: pl.DataFrame, events: pl.DataFrame, limits: Mapping[int, int | None], drained: Collection[int]
) -> dict[str, pl.DataFrame]:
    """All of them by name. `limits`: of each group how often it hands out a record, if that is known."""
    found = records(events, log)
    return {
        "double-accept": double_accept(found),
        "delivered-after-accept": delivered_after_accept(found),
        "over-delivered": over_delivered(found, limits),
        "lost-release": lost_release(found, limits, drained),
    }


def double_accept(records_: pl.DataFrame) -> pl.DataFrame:
    """Those that were accepted more than once, with `times`."""
    return records_.filter(pl.col("accepts") > 1).with_columns(times="accepts")


def delivered_after_accept(records_: pl.DataFrame) -> pl.DataFrame:
    """Those that were handed out after an accept, with `at_ns` of the last time."""
    return records_.filter(pl.col("acquired_ns") > pl.col("accepted_ns")).with_columns(at_ns="acquired_ns")


def over_delivered(records_: pl.DataFrame, limits: Mapping[int, int | None]) -> pl.DataFrame:
    """Those whose delivery count is above the limit, with `times` and `limit`."""
    found = _limited(records_, limits).filter(pl.col("count") > pl.col("limit"))
    return found.with_columns(times="count", at_ns="acquired_ns")


def lost_release(
    records_: pl.DataFrame, limits: Mapping[int, int | None], drained: Collection[int]
) -> pl.DataFrame:
    """Those that came back to a drained group and did not go out again, with `at_ns` and `times` of the last
    time that they did.
    """
    asked = (pl.col("settling_ns") >= pl.col("acquired_ns")).fill_null(False)
    back = _limited(records_, limits).filter(
        pl.col("group").is_in(list(drained)),
        ~pl.col("settled"),
        ~asked,
        pl.col("last_count") < pl.col("limit"),
    )
    return back.with_columns(times="last_count", at_ns="acquired_ns")


def handed_unnoticed(lost: pl.DataFrame, events: pl.DataFrame, locks: Mapping[int, int]) -> pl.DataFrame:
    """Of what is `lost` (see lost_release) that which may have reached the limit: so many members of the
    group were killed after it had come back. What a member was handed by a poll that never returned is on
    no record.

    `events`: group_events. `locks`: by group, how long a member may hold a record (ns).
    """
    rows = lost.with_row_index("line").with_columns(
        freed_ns=pl.min_horizontal("released_ns", pl.col("acquired_ns") + _lock_ns(locks))
    )
    gone = events.filter(pl.col("kind").is_in(GONE)).select("group", "kind", gone="member", gone_ns="at_ns")
    ends = rows.join(gone, on="group", how="inner").filter(pl.col("gone_ns") >= pl.col("acquired_ns"))
    held, killed = pl.col("gone") == pl.col("member"), pl.col("kind") == "killed"
    # Whoever held it gave it back by its own end, and was not handed it once more by that.
    back_ns = pl.min_horizontal("freed_ns", pl.col("gone_ns").filter(held).min().over("line"))
    since_ns = pl.when(held).then("freed_ns").otherwise(back_ns)
    times = (
        ends.filter(killed & (pl.col("gone_ns") >= since_ns))
        .group_by("line")
        .agg(kills=pl.col("gone").n_unique().cast(pl.Int64))
    )
    found = rows.join(times, on="line", how="inner", maintain_order="left")
    return found.filter(pl.col("last_count") + pl.col("kills") >= pl.col("limit")).select(lost.columns)


def _lock_ns(locks: Mapping[int, int]) -> pl.Expr:
    return pl.col("group").replace_strict(dict(locks), default=None, return_dtype=pl.Int64)


def handed_unrecorded(events: pl.DataFrame, log: pl.DataFrame, deliveries: pl.DataFrame) -> pl.DataFrame:
    """(group, producer, seq, n): messages that members of share groups acquired, of which no delivery is on
    record.
    """
    acquired = covered(events.filter(_ACQUIRED), READ)
    parts, delivered = overlay([acquired, deliveries.select(*READ.columns, "n")], READ)
    alone = parts.join(delivered, on="part", how="anti").drop("part")
    spots, stored = overlay([alone, meeting(log.filter(NAMED), alone, PLACES)], PLACES)
    return spots.join(stored.select("part", "producer", "seq"), on="part").select(HANDED)


def _limited(records_: pl.DataFrame, limits: Mapping[int, int | None]) -> pl.DataFrame:
    known = {group: limit for group, limit in limits.items() if limit is not None}
    of = pl.DataFrame({"group": list(known), "limit": list(known.values())}, schema=_LIMITS)
    return records_.join(of, on="group", how="inner")


_LIMITS = {"group": pl.Int64, "limit": pl.Int64}
