"""double-accept, delivered-after-accept, over-delivered and lost-release: what brokers confirmed to members
of share groups. Defined in docs/GLOSSARY.md.

Offsets that held several records in turn are also judged for each record separately (`of_single_records`): if
a message was overwritten, the group's events at its offset up to then concern that message, later ones the
next. One accept of each is no double accept. Cases that remain are not consequences of the overwriting
(consequences.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

import polars as pl

from kaput.analysis.engine.question import (
    Cases,
    Find,
    Question,
    Reported,
    Row,
    SumPart,
    Unclear,
    at,
    group_facts,
    poll,
)
from kaput.analysis.engine.sums import Collected, Sum
from kaput.analysis.run import Run
from kaput.analysis.runs.clocks import GONE
from kaput.analysis.runs.columns import NAMED, looked_up
from kaput.analysis.runs.cutting import PLACES, READ, covered, meeting, overlay
from kaput.analysis.views.places import Places, Stored
from kaput.analysis.views.rows import Rows
from kaput.core import MS, clock
from kaput.evidence.schemas import SHARE_EVENT_KINDS
from kaput.verdict.contracts import unclear
from kaput.verdict.rules import Grounds, Ruled, VerdictRule, never


def _is(*kinds: str) -> pl.Expr:
    return pl.col("kind").is_in([SHARE_EVENT_KINDS.index(kind) for kind in kinds])


HANDED = ("group", "producer", "seq", "n")
_ACQUIRED, _ACCEPTED = _is("acquired"), _is("accepted")
_SETTLED = _is("accepted", "rejected")
_RELEASING = _is("releasing", "released")
# A request for one of these may have taken effect, unless the record was acquired again afterwards. A failed
# request tells nothing: it may have been for this, for a release, or from before the record was last
# acquired.
_SETTLING = _is("accepting", "accepted", "rejecting", "rejected")


def _lost_release(row: Row) -> str:
    return (
        f"{poll(row)} with delivery count {row['times']:,} (the limit is {row['limit']:,}), neither accepted "
        "nor rejected it, and nobody received it again"
    )


_NOT_AGAIN = (
    "{records came back to the group, below its limit, and were|record came back to the group, below its "
    "limit, and was} never delivered again"
)


def _unnoticed(known: Grounds) -> Ruled:
    why = "a member that was killed may have been handed them once more, for the last time"
    yield unclear(why), known.unclear


@dataclass(frozen=True)
class Shares(Question):
    """`locks`: by share group of the scenario, the record lock duration (ns)."""

    locks: Mapping[int, int] = field(default_factory=dict)

    sums = {
        "shared": Sum(("group", "member", "kind"), ("records",)),
        "acquired": Sum(("group", "place"), (), ("low", "first_ns")),
        "handed_unrecorded": Collected(HANDED),
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
    needs = dict.fromkeys(("rows", "stored", "places"), ("share_events",))
    rules = {
        "double-accept": never(
            "{records were|record was} accepted more than once, each time confirmed by a broker"
        ),
        "delivered-after-accept": never(
            "{records were|record was} delivered although a broker had confirmed {their|its} accept"
        ),
        "over-delivered": never(
            "{records were|record was} delivered with a delivery count beyond the group's limit"
        ),
        "lost-release": VerdictRule(_NOT_AGAIN, _unnoticed, never=_NOT_AGAIN, uncounted=True),
    }

    def of_rows(self, rows: Rows) -> Iterator[Find]:
        runs = rows.coded.runs
        yield SumPart("shared", runs.rename({"n": "records"}))
        acquired = runs.filter(_ACQUIRED)
        yield SumPart("acquired", acquired.rename({"offset": "low", "at_ns": "first_ns"}))

    def before_stored(self, run: Run) -> Shares | None:
        """Skips the stage without events of share groups."""
        return None if run.sums["shared"].is_empty() else self

    def of_stored(self, stored: Stored) -> Iterator[Find]:
        """Acquired records without a recorded delivery."""
        handed = handed_unrecorded(stored.share_events, stored.log, stored.deliveries)
        yield SumPart("handed_unrecorded", handed)

    def before_places(self, run: Run) -> Shares:
        given, scenario = run.given, run.given.scenario
        groups = [group for group in given.group_specs if group.type == "share"]
        locks = {given.groups.index(group.id): scenario.lock_ms(group) * MS for group in groups if scenario}
        return replace(self, locks=locks)

    def of_places(self, places: Places) -> Iterator[Find]:
        """Finds all cases. Lost releases are unclear if a killed member may have acquired them."""
        known = places.known
        by_name = cases(places.log, events_of(places), known.share_groups, known.drained)
        unnoticed = handed_unnoticed(by_name["lost-release"], known.events, self.locks)
        by_name["lost-release"] = by_name["lost-release"].join(unnoticed, on=READ.columns, how="anti")
        for name, rows in by_name.items():
            yield Cases(name, rows)
        yield Unclear("lost-release", unnoticed)

    def report(self, run: Run) -> Iterator[Reported]:
        shared = set(run.sums["shared"]["group"])
        delivered = set(run.sums["delivered"]["group"])
        for index in run.groups:
            share = run.given.types[index] == "share"
            yield group_facts(index, unrecorded=share and index not in shared and index in delivered)


def events_of(places: Places) -> pl.DataFrame:
    """Runs of share_events, each with `led_ns`: when the leader of that time was elected, null if unknown."""
    known = places.known
    elections = pl.DataFrame(
        [
            (known.names.code(place), change.at_ns)
            for place, changes in known.leader_history.changes.items()
            for change in changes
            if change.is_election
        ],
        schema={"place": pl.Int64, "led_ns": pl.Int64},
        orient="row",
    )
    by_time = places.share_events.sort("at_ns")
    return by_time.join_asof(
        elections.sort("led_ns"), left_on="at_ns", right_on="led_ns", by="place", check_sortedness=False
    )


def records(events: pl.DataFrame, log: pl.DataFrame) -> pl.DataFrame:
    """(group, place, offset, n, ...): stretches of stored records with the same history in a group. accepts:
    number of accepts, accepted_ns: time of the first; acquired_ns, member, last_count: when they were last
    acquired, by whom (of several, the first by name), with which delivery count; again_ns, again_by: when
    they were last handed out after an accept, and to whom; count: the maximum; settled: whether an accept or
    reject was confirmed; settling_ns: when one was last requested; released_ns: when a release was first
    requested since they were last acquired. `events`: see `events_of`.
    """
    stored = events.select(READ.keys).unique().join(covered(log, PLACES), on="place")
    parts, there = overlay([events, stored], READ)
    last_ns = pl.col("at_ns").filter(_ACQUIRED).max()
    last = _ACQUIRED & (pl.col("at_ns") == last_ns)
    accepted_ns = pl.col("at_ns").filter(_ACCEPTED).min()
    before = _ACQUIRED & (pl.col("at_ns") <= accepted_ns)
    # One leader counts upward: what a poll returns with a smaller count was handed out before.
    smaller = pl.col("delivery_count") < pl.col("delivery_count").filter(before).max()
    same_leader = pl.col("led_ns").eq_missing(pl.col("led_ns").filter(before).max())
    after = _ACQUIRED & (pl.col("at_ns") > accepted_ns) & ~(smaller & same_leader).fill_null(False)
    again_ns = pl.col("at_ns").filter(after).max()
    handed = parts.join(there, on="part", how="semi").group_by("part")
    return handed.agg(
        pl.col(*READ.columns, "n").first(),
        accepts=_ACCEPTED.sum().cast(pl.Int64),
        accepted_ns=accepted_ns,
        again_ns=again_ns,
        again_by=pl.col("member").filter(after & (pl.col("at_ns") == again_ns)).min(),
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
    """All cases by anomaly: records accepted more than once; handed out after an accept; with a delivery
    count above the limit; released in a drained group and not acquired again. `times`: how often; `at_ns` and
    `member`: the last time. `limits`: by group, the maximum delivery count, None if unknown.
    """
    every = records(events, log)
    known = {group: limit for group, limit in limits.items() if limit is not None}
    limited = every.with_columns(limit=looked_up(pl.col("group"), known), at_ns="acquired_ns")
    was_asked = (pl.col("settling_ns") >= pl.col("acquired_ns")).fill_null(False)
    returned = limited.filter(
        pl.col("group").is_in(list(drained)),
        ~pl.col("settled"),
        ~was_asked,
        pl.col("last_count") < pl.col("limit"),
    )
    again = every.drop_nulls("again_ns")
    return {
        "double-accept": every.filter(pl.col("accepts") > 1).with_columns(times="accepts"),
        "delivered-after-accept": again.with_columns(at_ns="again_ns", member="again_by"),
        "over-delivered": limited.filter(pl.col("count") > pl.col("limit")).with_columns(times="count"),
        "lost-release": returned.with_columns(times="last_count"),
    }


def handed_unnoticed(lost: pl.DataFrame, events: pl.DataFrame, locks: Mapping[int, int]) -> pl.DataFrame:
    """Cases of lost-release, `lost`, that may have reached the limit: enough members of the group were
    killed after the record was released. A poll that never returned may have acquired it without recording.
    `events`: group_events. `locks`: by group, the record lock duration (ns).
    """
    rows = lost.with_row_index("line").with_columns(
        freed_ns=pl.min_horizontal("released_ns", pl.col("acquired_ns") + looked_up(pl.col("group"), locks))
    )
    gone = events.filter(pl.col("kind").is_in(GONE)).select("group", "kind", gone="member", gone_ns="at_ns")
    ends = rows.join(gone, on="group", how="inner").filter(pl.col("gone_ns") >= pl.col("acquired_ns"))
    was_holder, killed = pl.col("gone") == pl.col("member"), pl.col("kind") == "killed"
    # The end of the member that held it released it; that member did not acquire it again.
    back_ns = pl.min_horizontal("freed_ns", pl.col("gone_ns").filter(was_holder).min().over("line"))
    since_ns = pl.when(was_holder).then("freed_ns").otherwise(back_ns)
    times = (
        ends.filter(killed & (pl.col("gone_ns") >= since_ns))
        .group_by("line")
        .agg(kills=pl.col("gone").n_unique().cast(pl.Int64))
    )
    with_kills = rows.join(times, on="line", how="inner", maintain_order="left")
    return with_kills.filter(pl.col("last_count") + pl.col("kills") >= pl.col("limit")).select(lost.columns)


def handed_unrecorded(events: pl.DataFrame, log: pl.DataFrame, deliveries: pl.DataFrame) -> pl.DataFrame:
    """(group, producer, seq, n): messages that share groups acquired, without a recorded delivery."""
    acquired = covered(events.filter(_ACQUIRED), READ)
    parts, delivered = overlay([acquired, deliveries.select(*READ.columns, "n")], READ)
    alone = parts.join(delivered, on="part", how="anti").drop("part")
    spots, stored = overlay([alone, meeting(log.filter(NAMED), alone, PLACES)], PLACES)
    return spots.join(stored.select("part", "producer", "seq"), on="part").select(HANDED)


_EVENT_MS, _CUT_MS = pl.col("at_ns") // MS, pl.col("since_ns") // MS


def of_single_records(
    log: pl.DataFrame,
    events: pl.DataFrame,
    overwritten: pl.DataFrame,
    limits: Mapping[int, int | None],
    drained: Collection[int],
) -> dict[str, pl.DataFrame]:
    """(group, place, offset, n) of the cases of single records at these offsets, by anomaly (`shares.cases`).
    `overwritten`: (group, place, offset, since_ns). Skips offsets with a null `since_ns`: it is unknown which
    record an event concerned. Events in the same ms count for either.
    """
    if overwritten.is_empty():
        return {}
    cuts = overwritten.select(*READ.columns, "since_ns", n=pl.lit(1, pl.Int64)).unique()
    parts, moments = overlay([events, cuts], READ)
    dated = moments.filter(pl.col("since_ns").is_not_null().all().over("part")).select("part", "since_ns")
    each = parts.with_row_index("line").join(dated, on="part")
    before, after = (
        _cases_by_turn(each, later, log, limits, drained)
        for later in (_EVENT_MS > _CUT_MS, _EVENT_MS >= _CUT_MS)
    )
    return {name: rows.join(after[name], on=READ.columns, how="semi") for name, rows in before.items()}


def _cases_by_turn(
    each: pl.DataFrame,
    later: pl.Expr,
    log: pl.DataFrame,
    limits: Mapping[int, int | None],
    drained: Collection[int],
) -> dict[str, pl.DataFrame]:
    """Cases of each record in turn. `each`: events joined with each time at which a record was overwritten;
    `later`: whether the event came after that.
    """
    turns = each.group_by("line").agg(pl.exclude("since_ns").first(), turn=later.sum(), turns=pl.len())
    by_name: dict[str, list[pl.DataFrame]] = {name: [] for name in Shares.rules}
    for turn in turns["turn"].unique().sort():
        rows = turns.filter(turn=turn)
        cases_of_turn = cases(log, rows, limits, drained)
        # A record that was released and then overwritten could not be delivered again.
        cases_of_turn["lost-release"] = cases(
            log, rows.filter(pl.col("turn") == pl.col("turns")), limits, drained
        )["lost-release"]
        if turn:
            # Delivery counts belong to offsets: they continue those of the previous record.
            cases_of_turn["over-delivered"] = cases_of_turn["over-delivered"].clear()
        for name, mine in cases_of_turn.items():
            by_name[name].append(mine.select(*READ.columns, "n"))
    none = each.select(*READ.columns, "n").clear()
    return {name: pl.concat([none, *frames]).unique() for name, frames in by_name.items()}
