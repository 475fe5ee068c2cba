"""Stage 3: what some partitions hold, and what was delivered of it to groups: runs in the order of offsets.

What the tasks of messages found out comes along (for_places.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from kaput.analysis.examples import SHOWN
from kaput.analysis.faults import Attempted
from kaput.analysis.ledger import write
from kaput.analysis.names import Names, Place
from kaput.analysis.partitions import Extent
from kaput.analysis.questions import (
    commits,
    consequences,
    handovers,
    loss_windows,
    losses,
    offsets,
    pipes,
    polls,
    shares,
    standstills,
    steps,
)
from kaput.analysis.questions.fault_windows import FaultWindow, affected_by_loss
from kaput.analysis.questions.messages import NAMED
from kaput.analysis.questions.order import reordered
from kaput.analysis.runs.cutting import PLACES, READ, meeting, overlay
from kaput.analysis.runs.run import NULL, Ints, in_order, unpacked
from kaput.analysis.stages import for_places, overwritten
from kaput.analysis.stages.cases import BY_MEMBER, COUNTED, UNCLEAR, by_member, counted, shown, unclear
from kaput.analysis.stages.encode import no_rows
from kaput.analysis.stages.pieces import Piece, gathered
from kaput.analysis.sums import Sum
from kaput.analysis.timeline import Timeline

SUMS: Mapping[str, Sum] = {
    "cases": COUNTED,
    "unclear": UNCLEAR,
    "by_member": BY_MEMBER,
    "receivers": commits.RECEIVERS,
    "losses": Sum(
        ("producer", "topic", "cause", *losses.KNOWN, "fault"), ("messages",), ("first_ns",), ("last_ns",)
    ),
    "lost_by_fault": Sum(("fault",), ("n",)),
    "redelivered": Sum(("rebalance",), ("n",)),
    "first_records": Sum(("member", "rebalance"), (), ("at_ns",)),
    "vanished": Sum(("group", "producer", "topic", "cause", *losses.KNOWN), ("messages",)),
    "consequences": consequences.CONSEQUENCES,
    "broken": Sum(("first_seq", *consequences.LOSS), ("n",)),
    "lost_outputs": Sum((*consequences.INPUT, *consequences.LOSS), ("n",)),
    "without_output": Sum(consequences.INPUT, ("n",)),
    "steps": steps.COUNTS,
}
BY_PLACE = ["place", "offset", "at_ns", "producer", "seq", "member"]
_WHO = ["producer", "seq"]
_ONE = pl.lit(1, pl.Int64)


def order(name: str) -> list[str]:
    """In which order the cases of a name are shown."""
    return _WHO if name == "lost" else BY_PLACE


@dataclass(frozen=True)
class PlaceContext:
    """What the tasks of places work with. `events`: group_events; `under`: (producer, place, epoch,
    first_ns); `extents`: of the logs; `silent`: producers with acks=0, `acks_1`: with acks=1; `attempted` and
    `fault_windows`: of faults; `healed`: when each fault ended; `lost_directory`: for lost messages;
    `handovers`: (group, place, assigned_ns, rebalance), see questions/handovers.py; `share_groups`: of each
    its limit of deliveries, if that is known; `drained`: the groups that are; `count_ns`: the width
    of steps; `uncommitted`: the groups with read_uncommitted; `pipes`: of each the topics that it reads;
    `limits`: how long a last stable offset may stand still; `locks`: of each share group, how long a member
    may hold a record (ns); `begins`: (group, place, offset) of groups that do not read from the start.
    """

    names: Names
    events: pl.DataFrame
    under: pl.DataFrame
    timeline: Timeline
    extents: Mapping[Place, Extent]
    silent: Collection[int]
    attempted: Sequence[Attempted]
    fault_windows: Sequence[FaultWindow]
    healed: Mapping[str, int | None]
    lost_directory: str
    handovers: pl.DataFrame
    share_groups: Mapping[int, int | None] = field(default_factory=dict)
    drained: Collection[int] = ()
    count_ns: int = steps.FINEST_NS
    uncommitted: Collection[int] = ()
    pipes: Mapping[int, Collection[int]] = field(default_factory=dict)
    limits: standstills.Limits = field(default_factory=standstills.Limits)
    locks: Mapping[int, int] = field(default_factory=dict)
    begins: pl.DataFrame = field(default_factory=commits.nowhere)
    acks_1: Collection[int] = ()


@dataclass(frozen=True)
class PlaceResults:
    """One task's results: SUMS; `shown`: the first cases of each name; `late`: reordered messages;
    `deposed`, `displaced`, `loss_windows`: a row each. None where deliveries are torn (polls.torn).
    """

    sums: Mapping[str, pl.DataFrame]
    shown: Mapping[str, pl.DataFrame]
    late: pl.DataFrame
    deposed: pl.DataFrame
    displaced: pl.DataFrame
    loss_windows: pl.DataFrame


def examine(pieces: Iterable[Piece], context: PlaceContext, part: int) -> PlaceResults | None:
    """All of one task's places."""
    tables = gathered(pieces, _no_runs() | for_places.none())
    log, deliveries = in_order(tables["log"], PLACES.columns), tables["deliveries"]
    # Share groups promise no order.
    ordered = polls.in_time(deliveries.filter(~pl.col("group").is_in(list(context.share_groups))))
    if polls.torn(ordered):
        return None
    astray, times = unpacked(tables["astray"], ("attempts", "dones"))
    rows = _explained(astray, times, log, context)
    lost = rows.filter("lost").sort(_WHO)
    if lost.height:
        write(losses.table(lost, context.names), context.lost_directory, part)
    owed = _owed(log, ordered, context)
    again = commits.redelivered(ordered, _committed(context))
    cases = _of_groups(log, ordered, owed, context) | _of_offsets(astray, log, deliveries)
    cases |= shares.cases(log, tables["share_events"], context.share_groups, context.drained)
    unnoticed = shares.handed_unnoticed(cases["lost-release"], context.events, context.locks)
    cases["lost-release"] = cases["lost-release"].join(unnoticed, on=READ.columns, how="anti")
    read = pipes.inputs(log, context.pipes)
    cases |= pipes.processed(read, tables["outputs"], context.drained, context.begins)
    cases["redelivered"] = again.rename({"committed": "flag"})
    gone = consequences.explained(_gone(tables["contradicted"], log, context))
    claims = _gone(tables["claims"], log, context)
    hanging = standstills.hanging(tables["standstills"], log, context.limits)
    cases["hanging-transaction"] = hanging.drop("unclear")
    examples = {name: shown(found, BY_PLACE) for name, found in cases.items()}
    examples["commit-ahead"] = commits.passed(examples["commit-ahead"], owed)
    examples["corrupt"] = offsets.claimed(examples["corrupt"], astray, log, deliveries)
    examples["lost"] = lost.head(SHOWN)
    return PlaceResults(
        sums={
            "cases": counted(cases),
            "unclear": unclear({"hanging-transaction": hanging.filter("unclear"), "lost-release": unnoticed}),
            "by_member": by_member(cases),
            "receivers": commits.receivers(ordered, again),
            "losses": losses.kinds(lost),
            "lost_by_fault": _lost_by_fault(context.fault_windows, lost),
            "redelivered": handovers.redelivered(ordered, context.handovers),
            "first_records": handovers.first_records(deliveries, context.handovers),
            "vanished": _vanished(claims),
            "lost_outputs": SUMS["lost_outputs"].of(overwritten.lost_outputs(rows, tables["lost_outputs"])),
            "without_output": SUMS["without_output"].of(overwritten.without_output(cases["unprocessed"])),
            "consequences": overwritten.consequences_of(cases, gone, rows, claims, tables, log, context),
            "broken": SUMS["broken"].of(rows.filter(pl.col("first_seq").is_not_null()).with_columns(n=_ONE)),
            "steps": steps.counted("lost", _acknowledged(lost), context.count_ns),
        },
        shown=examples,
        late=reordered(_sent(log, tables["phantoms"])),
        deposed=losses.deposed(rows, context.healed),
        displaced=overwritten.displaced(cases["inconsistent-offset"], rows, gone, context.acks_1),
        loss_windows=loss_windows.found(lost, log),
    )


def handed_unrecorded(pieces: Iterable[Piece]) -> pl.DataFrame:
    """Of one task's places, see shares.handed_unrecorded: the tasks of messages are to know it."""
    tables = gathered(pieces, _no_runs())
    return shares.handed_unrecorded(tables["share_events"], tables["log"], tables["deliveries"])


def _explained(
    said: pl.DataFrame, times: Mapping[str, Ints], log: pl.DataFrame, context: PlaceContext
) -> pl.DataFrame:
    """What was said to be at an offset, and why it is not there."""
    return losses.explained(
        losses.beside_the_log(said, times, log),
        context.under,
        context.timeline,
        context.extents,
        context.names,
        context.silent,
        context.attempted,
    )


def _gone(claims: pl.DataFrame, log: pl.DataFrame, context: PlaceContext) -> pl.DataFrame:
    """Claims (vanished.py), and why the messages are not there any more."""
    times = {"attempts": claims["attempt_ns"], "dones": claims["done_ns"].fill_null(NULL)}
    one_by_one = claims.with_columns(row=pl.int_range(pl.len(), dtype=pl.Int64))
    return _explained(one_by_one, {name: kept.to_numpy() for name, kept in times.items()}, log, context)


def _vanished(claims: pl.DataFrame) -> pl.DataFrame:
    """What vanished, by group and by everything that a contract may ask for."""
    return SUMS["vanished"].of(overwritten.claims_of("vanished", claims).with_columns(messages=_ONE))


def _no_runs() -> dict[str, pl.DataFrame]:
    none = no_rows()
    return {
        "log": none["log"].runs,
        "deliveries": none["deliveries"].runs.drop("row"),
        "share_events": none["share_events"].runs,
    }


def _of_offsets(astray: pl.DataFrame, log: pl.DataFrame, deliveries: pl.DataFrame) -> dict[str, pl.DataFrame]:
    located = astray.drop_nulls(["place", "offset"])
    return {
        "inconsistent-offset": offsets.inconsistent(located, log, deliveries),
        "corrupt": offsets.corrupt(log, deliveries),
    }


def _of_groups(
    log: pl.DataFrame, deliveries: pl.DataFrame, owed: pl.DataFrame, context: PlaceContext
) -> dict[str, pl.DataFrame]:
    assigned = context.events.filter(kind="assigned").drop_nulls("place").select("group", "place").unique()
    stepped = [polls.steps(mine, shown) for mine, shown in _shown_to(deliveries, log, context)]
    skips, back = (pl.concat(each) for each in zip(*stepped, strict=True))
    committed = _committed(context)
    return {
        "poll-skip": _polled(skips),
        "nonmonotonic-poll": _polled(back),
        "unassigned-delivery": polls.unassigned(deliveries, assigned),
        "commit-ahead": commits.ahead(owed, committed).with_columns(n=pl.lit(1, pl.Int64)),
    }


def _shown_to(
    rows: pl.DataFrame, log: pl.DataFrame, context: PlaceContext
) -> list[tuple[pl.DataFrame, pl.DataFrame]]:
    """What is of groups that are given every record, with the log; and what is of others, with what is
    visible of it.
    """
    if log["visible"].all():
        return [(rows, log)]
    every = pl.col("group").is_in(list(context.uncommitted))
    return [(rows.filter(every), log), (rows.filter(~every), log.filter("visible"))]


def _owed(log: pl.DataFrame, deliveries: pl.DataFrame, context: PlaceContext) -> pl.DataFrame:
    """See commits.owed."""
    begun = commits.positions(deliveries, context.events, context.begins)
    found = [
        commits.owed(shown, deliveries, mine, begun)
        for mine, shown in _shown_to(_committed(context), log, context)
    ]
    return pl.concat(found)


def _committed(context: PlaceContext) -> pl.DataFrame:
    rows = context.events.filter(kind="committed").drop_nulls(["place", "offset"])
    rows = rows.filter(~pl.col("group").is_in(list(context.share_groups)))
    return rows.select("group", "place", "offset", "at_ns", "member")


def _polled(moves: pl.DataFrame) -> pl.DataFrame:
    """A case for each step of a member: of a run the first delivery alone is one."""
    return moves.with_columns(n=_ONE).rename({"polled_ns_first": "at_ns", "before": "other_offset"})


def _sent(log: pl.DataFrame, phantoms: pl.DataFrame) -> pl.DataFrame:
    """What is visible of the log's messages, without the phantoms."""
    known = log.filter(NAMED, "visible")
    if phantoms.is_empty():
        return known
    # Whatever is at other offsets than theirs is left as it is.
    touched = meeting(known, phantoms, PLACES)
    whole = ["place", "offset", *_WHO, "n", "epoch"]
    rest = known.join(touched.select(whole), on=whole, how="anti", nulls_equal=True)
    parts, others = overlay([touched, phantoms], PLACES)
    sent = parts.join(others, on=["part", *_WHO], how="anti")
    return pl.concat([rest, sent.drop("part")])


def _lost_by_fault(windows: Sequence[FaultWindow], lost: pl.DataFrame) -> pl.DataFrame:
    """(fault, n): the lost messages that each fault affected."""
    rows = [(window.fault, affected_by_loss(window, lost)) for window in windows]
    return pl.DataFrame(rows, schema={"fault": pl.String, "n": pl.Int64}, orient="row")


def _acknowledged(lost: pl.DataFrame) -> Ints:
    """When each lost message was acknowledged, or, where that is not known, attempted."""
    at_ns: Ints = lost.select(pl.coalesce("done_ns", "attempt_ns")).to_series().to_numpy()
    return at_ns
