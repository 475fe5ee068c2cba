"""Stage 2: what became of the messages of some blocks: runs of sends, the log and deliveries, matched.

Exact times come from the rows' own columns, to which the runs point.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from kaput.analysis import ledger
from kaput.analysis.names import Names
from kaput.analysis.questions import (
    beginnings,
    fates,
    latency,
    pipes,
    recovery,
    steps,
    stuck,
    transactions,
)
from kaput.analysis.questions.contradicted import contradicted
from kaput.analysis.questions.messages import (
    ACKED,
    MESSAGE,
    Messages,
    messages,
    uncommitted,
    unread,
)
from kaput.analysis.questions.recovery import Reached
from kaput.analysis.questions.vanished import claims, uncommitted_and_gone, vanished
from kaput.analysis.runs.cutting import MESSAGES, overlay
from kaput.analysis.runs.run import NULL, Ints, unpacked
from kaput.analysis.stages import for_places
from kaput.analysis.stages.cases import COUNTED, Cases, counted, shown
from kaput.analysis.stages.encode import DELIVERED, no_rows
from kaput.analysis.stages.for_places import RECORD
from kaput.analysis.stages.pieces import Parts, Piece, gathered
from kaput.analysis.sums import Sum

if TYPE_CHECKING:
    from kaput.evidence.folder import LedgerRows

SUMS: Mapping[str, Sum] = {
    "fates": Sum(("producer", "outcome", "stored"), ("n", "copies")),
    "group_fates": Sum(("group", "outcome", "stored", "delivered"), ("n",)),
    "end_to_end": Sum(("group", "us"), ("times",)),
    "graded": steps.GRADES,
    "longest": steps.LONGEST,
    "first_acks": recovery.FIRST,
    "first_deliveries": recovery.FIRST,
    "under": Sum(("producer", "place", "epoch"), (), ("first_ns",)),
    "too_early": beginnings.TOO_EARLY,
    "owed_from": beginnings.OWED_FROM,
    "stuck": stuck.STUCK,
    "transactions": transactions.PARTS,
    "cases": COUNTED,
}
_NEVER = 2**63 - 1


@dataclass(frozen=True)
class MessageContext:
    """What the tasks of messages work with, once all partitions are known. `complete`: the places that were
    read to their end, `complete_topics`: topics all of whose known places were; `reads`: by drained group,
    the topics that it reads; `beginnings`: of groups that do not read from the start; `waiting`: how far
    groups had come when faults were healed; `committed`: the groups with read_committed; `handed`: (group,
    producer, seq, n), what share groups were handed without a delivery on record, if there is any; `step_ns`:
    the width of steps; `ledger`: the directory for it, and what it has `rows` of.
    """

    names: Names
    parts: Parts
    complete: Collection[int]
    complete_topics: Collection[int]
    step_ns: int
    reads: Mapping[int, Collection[int]] = field(default_factory=dict)
    reached: Sequence[Reached] = ()
    beginnings: pl.DataFrame = field(default_factory=beginnings.none)
    waiting: pl.DataFrame = field(default_factory=stuck.none)
    committed: Collection[int] = ()
    handed: pl.DataFrame = field(default_factory=pl.DataFrame)
    ledger: str = ""
    rows: LedgerRows = "none"


@dataclass(frozen=True)
class MessageResults:
    """One task's results: SUMS; `shown`: the first cases of each name; `pieces` for the tasks of places:
    `astray` (acknowledgements that the log does not bear out), `phantoms`, and `claims` of what vanished;
    `outputs` of pipes; `doubled`: the least message that was sent twice, that the log has twice at one
    offset, that is of two transactions, that has two rows in outputs,
    where there are any.
    """

    sums: Mapping[str, pl.DataFrame]
    shown: Mapping[str, pl.DataFrame]
    pieces: list[tuple[int, Piece]]
    doubled: Mapping[str, pl.DataFrame]


def examine(pieces: Iterable[Piece], context: MessageContext, part: int) -> MessageResults:
    """All of one task's messages."""
    tables = gathered(pieces, _no_runs())
    sends, times = unpacked(tables["sends"], ("attempts", "dones"))
    deliveries, polls = unpacked(tables["deliveries"], ("polls",))
    groups = range(len(context.names.groups))
    found = messages(sends, tables["log"], deliveries, tables["transactions"], groups)
    stretches = _timed(found.stretches, times).with_columns(
        unread=unread(context.complete, context.complete_topics)
    )
    stretches = stretches.with_columns(uncommitted=uncommitted())
    phantoms = found.copies.filter(~pl.col("sent"))
    ledger.write_part(stretches, times, context.names, context.ledger, part, context.rows)
    handed = found.deliveries, times, polls["polls"]
    gone = vanished(stretches, *handed)
    cases = _cases(stretches, phantoms, context) | {"vanished": gone}
    for_places_ = _for_places(stretches, times, phantoms, tables) | {
        "claims": _claims(gone, uncommitted_and_gone(stretches, *handed), context),
        "contradicted": contradicted(stretches, found.copies, *handed, context.complete),
        "unseen": for_places.unseen(beginnings.owed(cases["unseen"], context.beginnings, times)),
    }
    return MessageResults(
        sums={
            "fates": fates.fates(stretches),
            "group_fates": pl.concat(
                [fates.group_fates(stretches, group) for group in groups] or [_no_groups()]
            ),
            **_end_to_end(found, groups, times["attempts"], polls["polls"], context.step_ns),
            "first_acks": recovery.first_acks(stretches, times["dones"], context.reached),
            "first_deliveries": recovery.first_deliveries(
                stretches, found.deliveries, polls["polls"], context.reached
            ),
            "under": _under(stretches),
            "too_early": beginnings.too_early(cases["unseen"], context.beginnings, times),
            "owed_from": beginnings.owed_from(stretches, context.beginnings, times),
            "stuck": stuck.stuck(stretches, context.waiting, times),
            "transactions": transactions.parts(stretches),
            "cases": counted(cases),
        },
        shown=_shown(cases, times["attempts"]),
        pieces=list(for_places.sent(for_places_, context.parts)),
        doubled={
            "sends": _doubled(stretches, MESSAGE),
            "log": _doubled(found.copies, RECORD),
            "transactions": _doubled(found.transactions, MESSAGE),
            "outputs": pipes.doubled(tables["outputs"]),
        },
    )


def order(name: str) -> list[str]:
    """In which order the cases of a name are shown."""
    return RECORD if name == "phantom" else MESSAGE


def _no_groups() -> pl.DataFrame:
    numbers, words = ("group", "n"), ("outcome", "stored", "delivered")
    return pl.DataFrame(schema=dict.fromkeys(numbers, pl.Int64) | dict.fromkeys(words, pl.String))


def _no_runs() -> dict[str, pl.DataFrame]:
    none = no_rows()
    return {
        "sends": none["sends"].packed(),
        "log": none["log"].runs,
        "deliveries": none["deliveries"].packed().select(DELIVERED),
        "transactions": none["transactions"].runs,
        "outputs": none["outputs"].runs,
    }


def _timed(stretches: pl.DataFrame, times: Mapping[str, Ints]) -> pl.DataFrame:
    """The stretches with the least and the greatest time of attempts and of what is known of outcomes."""
    if stretches.is_empty():
        columns = ("attempt_ns_first", "attempt_ns_last", "done_ns_first", "done_ns_last")
        return stretches.with_columns(pl.lit(None, pl.Int64).alias(name) for name in columns)
    # Sends are cut into stretches without a rest, in the order of their rows.
    begin, attempts, dones = stretches["row"].to_numpy(), times["attempts"], times["dones"]
    last = np.maximum.reduceat(dones, begin)
    first = np.minimum.reduceat(np.where(dones == NULL, _NEVER, dones), begin)
    return stretches.with_columns(
        attempt_ns_first=pl.Series(np.minimum.reduceat(attempts, begin)),
        attempt_ns_last=pl.Series(np.maximum.reduceat(attempts, begin)),
        done_ns_first=pl.Series(first).replace(_NEVER, None),
        done_ns_last=pl.Series(last).replace(NULL, None),
    )


def _end_to_end(
    found: Messages, groups: Iterable[int], attempts: Ints, polls: Ints, step_ns: int
) -> dict[str, pl.DataFrame]:
    """How often a first delivery took how long, by group; and in each step, over all groups."""
    none = np.empty(0, np.int64)
    counts = [latency.counted(none).with_columns(group=pl.lit(0, pl.Int64))]
    stepped = [steps.graded("delivered", none, none, step_ns)]
    for group in groups:
        deliveries = found.deliveries.filter(group=group)
        when, took_ns = latency.end_to_end(found.stretches, deliveries, attempts, polls)
        took = latency.whole_us(took_ns)
        counts.append(latency.counted(took).with_columns(group=pl.lit(group, pl.Int64)))
        stepped.append(steps.graded("delivered", when, took, step_ns))
    graded, longest = zip(*stepped, strict=True)
    return {"end_to_end": pl.concat(counts), "graded": pl.concat(graded), "longest": pl.concat(longest)}


def _under(stretches: pl.DataFrame) -> pl.DataFrame:
    """(producer, place, epoch, first_ns): the first acknowledgement of what each epoch has stored of a
    producer."""
    known = stretches.filter(ACKED).drop_nulls(["place", "epoch", "done_ns_first"])
    return known.group_by("producer", "place", "epoch").agg(first_ns=pl.col("done_ns_first").min())


def _for_places(
    stretches: pl.DataFrame,
    times: Mapping[str, Ints],
    phantoms: pl.DataFrame,
    tables: Mapping[str, pl.DataFrame],
) -> dict[str, pl.DataFrame]:
    """What the tasks of places are to know of messages."""
    outputs = pipes.outputs(tables["outputs"], stretches.drop("part"))
    return {
        "astray": for_places.astray(stretches, times),
        "phantoms": for_places.phantoms(phantoms),
        "outputs": outputs.select(pipes.OUTPUTS),
        "lost_outputs": pipes.lost_outputs(outputs),
    }


def _claims(gone: pl.DataFrame, uncommitted_: pl.DataFrame, context: MessageContext) -> pl.DataFrame:
    """What was delivered and is gone, by the name of the anomaly."""
    read = uncommitted_.filter(pl.col("group").is_in(sorted(context.committed)))
    return pl.concat(
        [for_places.claims(claims(gone), "vanished"), for_places.claims(claims(read), "aborted-read")]
    )


def _cases(
    stretches: pl.DataFrame, phantoms: pl.DataFrame, context: MessageContext
) -> dict[str, pl.DataFrame]:
    """The anomalies that show when a message's send, records and deliveries are matched."""
    stored = stretches.filter(pl.col("stored") > 0).with_columns(times="stored")
    unseen = [
        _not_handed(
            stored.filter(
                pl.col(f"delivered_{group}") == 0, pl.col("topic").is_in(sorted(topics))
            ).with_columns(group=pl.lit(group, pl.Int64)),
            context.handed,
        )
        for group, topics in context.reads.items()
    ]
    return {
        "duplicate": stored.filter(pl.col("stored") > 1),
        "recovered": stored.filter(pl.col("outcome") == "unknown"),
        "ghost": stored.filter(pl.col("outcome") == "failed"),
        "unseen": pl.concat([stored.clear().with_columns(group=pl.lit(0, pl.Int64)), *unseen]),
        "phantom": phantoms.select(*RECORD, "n"),
        "aborted-read": transactions.aborted_read(stretches, context.committed),
    }


def _not_handed(unseen: pl.DataFrame, handed: pl.DataFrame) -> pl.DataFrame:
    """What a group was not delivered, without what it was handed all the same."""
    if handed.is_empty():
        return unseen
    group = unseen["group"].unique()
    parts, there = overlay([unseen, handed.filter(pl.col("group").is_in(group.implode()))], MESSAGES)
    return parts.join(there, on="part", how="anti")


def _shown(cases: Cases, attempts: Ints) -> dict[str, pl.DataFrame]:
    """The first of each. Of stretches: when they were attempted, and where they are stored first."""
    found = {name: shown(rows, order(name)) for name, rows in cases.items()}
    return {
        name: rows.drop("offset")
        .rename({"first_offset": "offset"})
        .with_columns(pl.Series("at_ns", attempts[rows["row"].to_numpy()], pl.Int64))
        if "first_offset" in rows.columns
        else rows
        for name, rows in found.items()
    }


def _doubled(parts: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """The least of what is there more than once, and how often."""
    known = parts.drop_nulls(keys).group_by(keys).agg(times=pl.len().cast(pl.Int64))
    return known.filter(pl.col("times") > 1).sort(keys).head(1)
