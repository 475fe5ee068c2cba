"""Explains acknowledgements that contradict the log: lost messages, and messages that are stored elsewhere
while another one is at their acknowledged offset (inconsistent offsets).

Each gets one cause, by the leader epoch that overwrote it (`explain`, by the rules of docs/GLOSSARY.md, one
partition at a time), and a Circumstances: what else is known. Also finds which messages that are gone were
removed as configured: compaction removes a message if a later one with the same key is stored in its
partition; retention removes what is below the log's start; a step of the timeline may delete records or
topics. Not here: which replicas had a message (survivors.py), the verdict.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from kaput.analysis.causes.survivors import maybe_unsynced, unsynced
from kaput.analysis.facts.leader_history import Epoch, LeaderHistory
from kaput.analysis.facts.partitions import Extent
from kaput.analysis.facts.reach import Attempted
from kaput.analysis.runs.columns import NAMED, NO_KEY, key_of, looked_up
from kaput.analysis.runs.cutting import PLACES, each, meeting, overlay, single
from kaput.analysis.runs.names import SHIFT, Names
from kaput.analysis.runs.run import NULL, Flags, Ints, nullable
from kaput.core import FOREVER_NS, MS, TopicPartition
from kaput.scenario.vocabulary import CAUSES
from kaput.verdict.facts import Circumstances

if TYPE_CHECKING:
    from kaput.analysis.views.known import Known

ACKS_0, DEPOSED, RESTARTED, UNCLEAN, UNEXPLAINED = range(len(CAUSES))


class Acks(NamedTuple):
    """Acknowledgements of one partition that contradict the log, as columns; NULL for null. own: the earliest
    epoch that may have given them; done: when (ns); taken: their offset now holds a record; gap: it holds
    none, although the log continues after it.
    """

    own: Ints
    offset: Ints
    done: Ints
    taken: Flags
    gap: Flags


def explain(epochs: Sequence[Epoch], acks: Acks) -> tuple[Ints, Ints, Ints, dict[str, Flags]]:
    """Of each acknowledgement: the index of the epoch that overwrote it, -1 for none; the cause of its loss;
    the epoch that gave it, NULL if unknown (then the start of the later epoch is unknown, too); and some of
    its Circumstances (verdict/facts.py). `epochs`: all known epochs of the partition, in order.
    """
    # In a gap no record shows the writer's epoch: go by time.
    ack_epoch = np.where(acks.gap, _latest_begun_epoch(epochs, acks), acks.own)
    old = _leaders_of(epochs, ack_epoch)
    by_start = _by_start(epochs, acks, ack_epoch, old)
    by_time = np.where((by_start < 0) & acks.taken, _by_time(epochs, acks), -1)
    cause, known = np.full(len(old), UNEXPLAINED), np.zeros(len(old), bool)
    for number, epoch in enumerate(epochs):
        here, later = by_start == number, by_time == number
        if epoch.unclean:
            cause[here | later], known[here | later] = UNCLEAN, True
            continue
        leader = NULL if epoch.leader is None else epoch.leader
        cause[here] = np.where((old[here] == leader) & (leader != NULL), RESTARTED, DEPOSED)
        known[here] = (old[here] != NULL) & (leader != NULL)
        cause[later] = RESTARTED if epoch.changed is False else DEPOSED
        known[later] = epoch.changed is not None
    chosen = np.maximum(by_start, by_time)
    nothing_there = (chosen < 0) & ~acks.taken & (acks.gap | (acks.offset == NULL))
    either = nothing_there & _reaches([e for e in epochs if e.changed is not False], acks)
    unclean = nothing_there & _reaches([e for e in epochs if e.unclean], acks)
    unclean |= np.isin(chosen, [number for number, epoch in enumerate(epochs) if epoch.unclean is None])
    flags = {"leaders_known": known, "either_leader": either, "maybe_unclean": unclean}
    return chosen, cause, np.where(by_time >= 0, NULL, ack_epoch), flags


def _leaders_of(epochs: Sequence[Epoch], numbers: Ints) -> Ints:
    """The leader of each of these epochs; NULL if unknown."""
    led = np.full(len(numbers), NULL, np.int64)
    for epoch in epochs:
        led[numbers == epoch.number] = NULL if epoch.led_last is None else epoch.led_last
    return led


def _by_start(epochs: Sequence[Epoch], acks: Acks, ack_epoch: Ints, old: Ints) -> Ints:
    """Index of the lowest later epoch that starts at or below the offset, preferring an unclean one. The
    start of an epoch without records is inferred from the next one's. If it has the same leader as before,
    epochs that certainly overwrote take precedence.
    """
    lowest, sure, unclean = (np.full(len(old), -1) for _ in range(3))
    for number, epoch in reversed(list(enumerate(epochs))):
        over = (epoch.number > ack_epoch) & (epoch.start <= acks.offset)
        lowest[over] = number
        leader = NULL if epoch.leader is None else epoch.leader
        another = (old != leader) & (old != NULL) & (leader != NULL)
        sure[over & (another | epoch.logged)] = number
        if epoch.unclean:
            unclean[over] = number
    return np.where(unclean >= 0, unclean, np.where(sure >= 0, sure, lowest))


def _by_time(epochs: Sequence[Epoch], acks: Acks) -> Ints:
    """Index of the overwriting epoch by time, for when the records do not tell: the first leader change after
    the acknowledgement, else the last one before it (a deposed leader continues for a while), else a new
    epoch of the same leader, chosen in the same way. An unclean election precedes all of these. -1 for none.
    """
    candidates = [np.full(len(acks.own), -1) for _ in range(5)]
    for number, epoch in enumerate(epochs):
        may = (epoch.number > acks.own) & (epoch.earliest <= acks.offset)
        after = may & (acks.done != NULL) & (acks.done <= (NULL if epoch.at_ns is None else epoch.at_ns))
        for rank, first, fits in (
            (0, True, may & bool(epoch.unclean)),
            (1, True, after & bool(epoch.changed)),
            (2, False, may & ~after & bool(epoch.changed)),
            (3, True, after),
            (4, False, may),
        ):
            candidates[rank][fits & (candidates[rank] < 0) if first else fits] = number
    chosen = candidates[0]
    for other in candidates[1:]:
        chosen = np.where(chosen >= 0, chosen, other)
    return chosen


def _reaches(epochs: Sequence[Epoch], acks: Acks) -> Flags:
    """Whether the offset may belong to one of these epochs, if later than its own."""
    reaches = np.zeros(len(acks.own), bool)
    for epoch in epochs:
        reaches |= (epoch.number > acks.own) & ((acks.offset == NULL) | (epoch.earliest <= acks.offset))
    return reaches


def _latest_begun_epoch(epochs: Sequence[Epoch], acks: Acks) -> Ints:
    """The highest epoch that may have begun by the acknowledgement, at least `own` (_own_epochs)."""
    begun = acks.own.copy()
    for epoch in epochs:
        if epoch.at_ns is not None:
            by_then = (acks.done != NULL) & (epoch.at_ns - epoch.within_ns <= acks.done)
            begun[by_then] = np.maximum(begun[by_then], epoch.number)
    return begun


CIRCUMSTANCES = list(Circumstances._fields)
# Circumstances that make a loss unclear instead of a violation.
_UNCLEAR_IF = ("either_leader", "maybe_unclean", "unsynced", "isr_unsure", "disk_lost", "isr_disk_lost")
# No leader epoch explains that they are gone. With acks=0 none is looked for.
NOT_OVERWRITTEN = pl.col("cause").is_in([CAUSES[UNEXPLAINED], CAUSES[ACKS_0]])
_NO_LOG = Extent(None, None, 0)


def with_holders(acks: pl.DataFrame, times: Mapping[str, Ints], log: pl.DataFrame) -> pl.DataFrame:
    """The acknowledgements that contradict the log, one per row, with what is at their offsets now. `acks`:
    runs whose `row` indexes the arrays `attempts` and `dones` of `times`. Adds attempt_ns, done_ns; `taken`,
    whether any record is at the offset now; `holder_producer` and `holder_seq`, the lowest message there.
    """
    nowhere = pl.any_horizontal(pl.col("place").is_null(), pl.col("offset").is_null())
    located = acks.filter(~nowhere)
    there = meeting(log, located, PLACES)
    located, there = overlay([located, there], PLACES)
    held = (
        there.sort("producer", "seq")
        .group_by("part", maintain_order=True)
        .agg(
            pl.col("producer").filter(NAMED).first().alias("holder_producer"),
            pl.col("seq").filter(NAMED).first().alias("holder_seq"),
            pl.lit(True).alias("taken"),
        )
    )
    parts = located.join(held, on="part", how="left").drop("part")
    every = pl.concat([parts, acks.filter(nowhere)], how="diagonal")
    every = every.with_columns(pl.col("taken").fill_null(False))
    return each(every, attempt_ns=times["attempts"], done_ns=times["dones"]).drop("n", "row")


def with_causes(rows: pl.DataFrame, known: Known) -> pl.DataFrame:
    """Rows of `with_holders`, plus cause, fault, ack_epoch, later_epoch, later_start, later_ns (when that
    epoch began; `since_ns`: at the earliest) and the fields of Circumstances. Without a column `seen`, all
    rows count as seen in the log.
    """
    by_place = [
        _of_place(known.names.place(code), here, known)
        for code in rows["place"].drop_nulls().unique().to_list()
        for here in [rows.filter(pl.col("place") == code)]
    ]
    by_place += [
        _of_topic(known.names.topics[topic], here, known)
        for (topic,), here in rows.filter(pl.col("place").is_null()).group_by("topic", maintain_order=True)
    ]
    every = pl.concat(by_place) if by_place else _of_place(None, rows, known)
    by_step = pl.col("deleted") & seen(every) & (pl.col("place") // SHIFT).is_in(list(known.deleted))
    by_step = (by_step & NOT_OVERWRITTEN).fill_null(False)
    every = every.with_columns(by_step.alias("deleted_by_step"))
    every = every.with_columns(_deleted_without_offset(known.extents, known.names))
    if not known.acks_0:
        return every  # skips an expression as long as there are faults
    from_acks_0 = pl.col("producer").is_in(list(known.acks_0))
    return every.with_columns(
        cause=pl.when(from_acks_0).then(pl.lit(CAUSES[ACKS_0])).otherwise("cause"),
        fault=pl.when(from_acks_0).then(_fault_at(known.attempted)).otherwise("fault"),
    )


def deleted_with_topics(rows: pl.DataFrame, known: Known) -> pl.DataFrame:
    """`with_causes`, `deleted` also in topics that a step deleted: no epoch of a new topic overwrote what was
    in the old one. What was acknowledged while the topic was being deleted was there, and so was what was
    acknowledged in a partition that had had one leader only.
    """
    recreated = known.recreated
    if not recreated:
        return rows
    old = in_old_topic(pl.col("topic"), recreated)
    over = old & ~NOT_OVERWRITTEN
    unknown = ("fault", "ack_epoch", "later_epoch", "later_start", "later_ns", "since_ns")
    rows = rows.with_columns(
        *(pl.when(~over).then(name).alias(name) for name in unknown),
        cause=pl.when(over).then(pl.lit(CAUSES[UNEXPLAINED])).otherwise("cause"),
        in_old_topic=old,
    )
    deleting, gone = (looked_up(pl.col("topic"), times) for times in (known.deleting, recreated))
    kept = pl.col("place").is_in(_kept_by_one_leader(rows, known)) & (pl.col("cause") != CAUSES[ACKS_0])
    by_then = (pl.col("done_ns") <= gone) & (kept | (pl.col("done_ns") >= deleting))
    there = seen(rows) | by_then.fill_null(False)
    return rows.with_columns(
        pl.col("deleted") | old, pl.col("deleted_by_step") | (old & there & NOT_OVERWRITTEN)
    )


def _kept_by_one_leader(rows: pl.DataFrame, known: Known) -> list[int]:
    """The places that had one leader until a step deleted their topic."""
    return [
        code
        for code in rows["place"].drop_nulls().unique().to_list()
        if code // SHIFT in known.recreated
        and known.leader_history.had_one_leader(known.names.located(code), known.recreated[code // SHIFT])
    ]


def seen(rows: pl.DataFrame) -> pl.Expr:
    """Whether messages that are gone are known to have been there; without a column `seen`, all of them."""
    return pl.col("seen").fill_null(False) if "seen" in rows.columns else pl.lit(True)


def in_old_topic(topic: pl.Expr, recreated: Mapping[int, int]) -> pl.Expr:
    """Whether a message attempted at `attempt_ns` may have been in the topic before it was recreated. The
    acknowledgement's time does not tell: a paused producer may have received it later.
    """
    return (pl.col("attempt_ns") <= looked_up(topic, recreated)).fill_null(False)


def _deleted_without_offset(extents: Mapping[TopicPartition, Extent], names: Names) -> list[pl.Expr]:
    """`deleted`, `maybe_deleted`, also for acknowledgements without an offset whose log was trimmed."""
    began = {place: extent for place, extent in extents.items() if place[0] in names.topics}
    sure = [names.code(place) for place, extent in began.items() if extent.start]
    unsure = [
        names.code(place)
        for place, extent in began.items()
        if extent.start is None and (extent.end if extent.first is None else extent.first)
    ]
    return [
        pl.col(name)
        | pl.col("offset").is_null()
        & pl.when(pl.col("place").is_null())
        .then(pl.col("topic").is_in([code // SHIFT for code in codes]))
        .otherwise(pl.col("place").is_in(codes))
        for name, codes in (("deleted", sure), ("maybe_deleted", unsure))
    ]


def _fault_at(attempted: Sequence[Attempted]) -> pl.Expr:
    """The latest fault during which a message was attempted."""
    fault: pl.Expr = pl.lit(None, pl.String)
    for window in sorted(attempted, key=lambda a: a.from_ns):
        to_ns = FOREVER_NS if window.to_ns is None else window.to_ns
        inside = pl.col("attempt_ns").is_between(window.from_ns, to_ns)
        fault = pl.when(inside).then(pl.lit(window.fault)).otherwise(fault)
    return fault


def _of_topic(topic: str, rows: pl.DataFrame, known: Known) -> pl.DataFrame:
    """Explains acknowledgements without a partition: they may have been in any partition of the topic."""
    explained = _of_place(None, rows, known)
    for place in sorted({*known.leader_history.epochs, *known.extents}):
        if place[0] == topic:
            one = _of_place(place, rows, known)
            explained = explained.with_columns(pl.col(name) | one[name] for name in _UNCLEAR_IF)
    return explained


def _of_place(place: TopicPartition | None, rows: pl.DataFrame, known: Known) -> pl.DataFrame:
    history = known.leader_history
    offset, done = (rows[name].fill_null(NULL).to_numpy() for name in ("offset", "done_ns"))
    taken = rows["taken"].to_numpy()
    extent = known.extents.get(place, _NO_LOG) if place is not None else _NO_LOG
    gap = ~taken & (offset != NULL) & (offset < extent.end)
    flags = {name: np.zeros(len(offset), bool) for name in CIRCUMSTANCES}
    flags["hole"] = gap | (offset == NULL)
    flags["deleted"] = gap & (offset < (NULL if extent.start is None else extent.start))
    if extent.start is None:
        flags["maybe_deleted"] = gap & (offset < (extent.end if extent.first is None else extent.first))
    cause, chosen = np.full(len(offset), UNEXPLAINED), np.full(len(offset), -1)
    ack_epoch = np.full(len(offset), NULL)
    epochs = history.epochs.get(place, []) if place is not None else []
    if place is not None:
        flags["leaders_known"] = np.full(len(offset), history.led(place))
        flags["isr_of_one"] = _isr_of_one(history, place, done)
    if place is not None and epochs:
        own = _own_epochs(rows, known.first_acks_by_epoch, done)
        own = np.where(own == NULL, epochs[0].number, own)
        chosen, cause, ack_epoch, why = explain(epochs, Acks(own, offset, done, taken, gap))
        all_known = np.where(chosen >= 0, why["leaders_known"], flags["leaders_known"])
        flags |= why | {"leaders_known": all_known}
        attempt = rows["attempt_ns"].fill_null(NULL).to_numpy()
        flags |= unsynced(history, place, np.stack([attempt, done, chosen, cause == RESTARTED]))
        for name, maybe in maybe_unsynced(history, place, attempt, done).items():
            flags[name] |= maybe & (offset == NULL)
    if place is not None and not history.led(place):
        flags["maybe_unclean"] |= cause == UNEXPLAINED
    starts = np.where(ack_epoch == NULL, NULL, _of_epochs([e.start for e in epochs], chosen))
    earliest = [None if e.at_ns is None else e.at_ns - e.within_ns for e in epochs]
    faults = np.array([e.fault for e in epochs] + [None], object)
    return rows.with_columns(
        pl.Series("cause", np.array(CAUSES, object)[cause].tolist(), pl.String),
        pl.Series("fault", faults[chosen].tolist(), pl.String),
        nullable("ack_epoch", ack_epoch),
        nullable("later_epoch", _of_epochs([e.number for e in epochs], chosen)),
        nullable("later_start", starts),
        nullable("later_ns", _of_epochs([e.at_ns for e in epochs], chosen)),
        nullable("since_ns", _of_epochs(earliest, chosen)),
        *(pl.Series(name, values, pl.Boolean) for name, values in flags.items()),
    )


def _of_epochs(values: Sequence[int | None], chosen: Ints) -> Ints:
    """The values of the chosen epochs; NULL if none is chosen or its value is unknown."""
    known = np.array([NULL if value is None else value for value in values] + [NULL], np.int64)
    of_chosen: Ints = known[chosen]
    return of_chosen


def _own_epochs(rows: pl.DataFrame, first_acks: pl.DataFrame, done: Ints) -> Ints:
    """The highest epoch that had acknowledged the same producer before or at the same time."""
    own = np.full(rows.height, NULL)
    if rows["place"].null_count():
        return own
    producers = rows["producer"].to_numpy()
    here = first_acks.filter(place=rows["place"][0]).sort("first_ns")
    of_producers = here.partition_by("producer", as_dict=True)
    for producer in np.unique(producers).tolist():
        of_producer = producers == producer
        known = of_producers.get((producer,), here.clear())
        greatest = np.maximum.accumulate([NULL, *known["epoch"].to_list()])
        by_then = greatest[np.searchsorted(known["first_ns"].to_numpy(), done[of_producer], side="left")]
        own[of_producer] = np.where(done[of_producer] == NULL, NULL, by_then)
    return own


def _isr_of_one(history: LeaderHistory, place: TopicPartition, done: Ints) -> Flags:
    """Whether the ISR was only the leader when it acknowledged."""
    known = [(c.at_ns // MS, len(c.isr)) for c in history.changes.get(place, []) if c.isr is not None]
    sizes = np.array([0, *(size for _, size in known)])
    at = np.searchsorted([ms for ms, _ in known], done // MS, side="right")
    alone: Flags = (sizes[at] == 1) & (done != NULL)
    return alone


@dataclass(frozen=True)
class Removing:
    """The settings of a run that remove records. `compacted`, `retained`: topics, by number, that are
    compacted, and that have a retention; `keys`: by producer whose keys are known, see `key_of`.
    """

    compacted: Collection[int] = ()
    retained: Collection[int] = ()
    keys: Mapping[int, int] = field(default_factory=dict)


def with_removal(rows: pl.DataFrame, log: pl.DataFrame, settings: Removing) -> pl.DataFrame:
    """Rows of `with_causes`, with `expired`, `compacted` and `maybe_compacted`."""
    kept_for_a_time = (pl.col("place") // SHIFT).is_in(list(settings.retained))
    below = pl.col("deleted") | (pl.col("maybe_deleted") & kept_for_a_time)
    expired = NOT_OVERWRITTEN & below & seen(rows) & ~pl.col("deleted_by_step")
    rows = rows.with_columns(expired.fill_null(False).alias("expired"))
    if not settings.compacted:
        return rows
    return _with_compaction(rows.with_row_index("line"), log, settings).sort("line").drop("line")


def _with_compaction(rows: pl.DataFrame, log: pl.DataFrame, settings: Removing) -> pl.DataFrame:
    compacted = (pl.col("place") // SHIFT).is_in(list(settings.compacted))
    may = compacted & NOT_OVERWRITTEN & pl.col("hole") & ~pl.col("deleted_by_step") & ~pl.col("expired")
    asked = rows.filter(may)
    if asked.is_empty():
        return rows
    key = key_of(settings.keys).alias("key")
    there = single(log.filter(NAMED, "visible", compacted)).with_columns(key)
    last = there.group_by("place", "key").agg(last=pl.col("offset").max())
    # Without an offset, the messages of its own producer tell.
    last_seq = there.group_by("place", "key", "producer").agg(last_seq=pl.col("seq").max())
    # Of what is gone as well, a later one may have taken its place before.
    gone = rows.filter(compacted).with_columns(key)
    last_gone = gone.group_by("place", "key").agg(last_gone=pl.col("offset").max())
    with_later = asked.with_columns(key)
    for others, on in ((last, ()), (last_gone, ()), (last_seq, ("producer",))):
        with_later = with_later.join(others, on=["place", "key", *on], how="left")
    later = pl.when(pl.col("offset").is_null()).then(pl.col("last_seq") > pl.col("seq"))
    sure = later.otherwise(pl.col("last") > pl.col("offset")).fill_null(False)
    unknown = ~pl.col("producer").is_in(list(settings.keys)) | pl.col("offset").is_null()
    perhaps = unknown | (pl.col("last_gone") > pl.col("offset")).fill_null(False)
    keyless = pl.col("producer").is_in([p for p, keys in settings.keys.items() if keys == NO_KEY])
    with_later = with_later.with_columns(compacted=sure, maybe_compacted=~sure & perhaps & ~keyless)
    return pl.concat([rows.filter(~may.fill_null(False)), with_later.select(rows.columns)])
