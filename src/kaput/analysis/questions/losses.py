"""lost [lost-write]: acknowledged, stored 0 times (runs/columns.py: LOST), and not removed by the topic's
settings. Counted as messages, by cause. removed: acknowledged, stored 0 times, and removed as configured, by
the topic's settings or by a step of the timeline; never an error.

Also loss windows (consecutive lost messages of one producer), and losses grouped by everything that a
contract of the verdict depends on. Not here: which epoch overwrote each message, and why (causes/).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from kaput.analysis.causes.attribution import CIRCUMSTANCES
from kaput.analysis.engine.question import (
    Cases,
    Check,
    Find,
    Question,
    Reported,
    Row,
    SumPart,
    To,
    anomaly,
    at,
    facts,
    fault,
    message,
)
from kaput.analysis.engine.sums import Collected, Sum
from kaput.analysis.engine.tables import write
from kaput.analysis.run import Run
from kaput.analysis.runs.columns import ACKED, GONE, HAS_OFFSET, LOST, MESSAGE, NAMED
from kaput.analysis.runs.names import Names, topic_partition
from kaput.analysis.runs.run import kept
from kaput.analysis.views.known import Known
from kaput.analysis.views.messages import Messages
from kaput.analysis.views.places import Places
from kaput.core import MS, clock
from kaput.verdict.contracts import REMOVED, permitted
from kaput.verdict.facts import Circumstances, Loss, Removal
from kaput.verdict.rules import VerdictRule

LOSS = ("producer", "topic", "cause", *CIRCUMSTANCES)  # what a contract depends on

# If a case has several losses, the least explained one counts: the lowest rank.
_CAUSES = {"unexplained": 0, "leader-restarted": 1, "deposed-leader": 2, "unclean-election": 3, "acks-0": 4}


def losses_of(kinds: pl.DataFrame, names: Names, count: str) -> list[Loss]:
    """A Loss for each row. `count`: the column with the number."""
    return [loss_of(row, names, row[count]) for row in kinds.iter_rows(named=True)]


def loss_of(row: Mapping[str, Any], names: Names, count: int = 1) -> Loss:
    return Loss(row["producer"], names.topics[row["topic"]], row["cause"], count, circumstances(row))


def by_cause(kinds: Iterable[Loss]) -> dict[str, int]:
    """Counts by cause. What configuration removed counts as `deleted`, `compaction` or `retention`."""
    counts: Counter[str] = Counter()
    for kind in kinds:
        removed = kind.known.removed_by if kind.cause == "unexplained" else None
        counts["deleted" if removed == "step" else removed or kind.cause] += kind.count
    return dict(sorted(counts.items()))


def circumstances(row: Mapping[str, Any]) -> Circumstances:
    return Circumstances(*(bool(row[name]) for name in CIRCUMSTANCES))


def rank(acks_1: Collection[int]) -> pl.Expr:
    """How well a loss is explained, ascending: by cause, then by whether circumstances excuse it (0: no,
    1: perhaps, 2: yes), which depends on acks. `acks_1`: producers with acks=1.
    """
    cause = pl.col("cause").replace_strict(_CAUSES, return_dtype=pl.Int64)
    crashed = (pl.col("cause") != "leader-restarted") | pl.col("unsynced")
    by_one = pl.when(~pl.col("leaders_known")).then(1).when(crashed).then(2).otherwise(0)
    by_all = pl.when("isr_unsure").then(1).when("isr_unsynced").then(2).otherwise(0)
    return 3 * cause + pl.when(pl.col("producer").is_in(sorted(acks_1))).then(by_one).otherwise(by_all)


_SAME = ("producer", "topic", "place", "cause", "fault")  # in a loss window
_REMOVED = ("deleted_by_step", "compacted", "expired")
_LISTS = ("attempts", "attempts_from", "dones", "dones_from")
_ACKS = (*MESSAGE, "topic", "place", "offset", "n", "lost", "borne_out", "seen", "first_seq", *_LISTS)
_TYPES = {"lost": pl.Boolean, "borne_out": pl.Boolean, "seen": pl.Boolean} | dict.fromkeys(
    ("attempts", "dones"), pl.List(pl.Int64)
)


def _story(row: Row) -> str:
    epoch = f" under epoch {row['ack_epoch']}" if row["ack_epoch"] is not None else ""
    if row["cause"] == "acks-0":
        return f"{message(row)} was sent with acks=0 at {clock(row['attempt_ns'])} and never stored"
    text = f"{message(row)} was acknowledged at {clock(row['done_ns'])} as {at(row)}{epoch}"
    if row["later_epoch"] is not None:
        text += f"; epoch {row['later_epoch']} began there {_later(row)}{_start(row)}".rstrip()
        if row["cause"] == "unclean-election":
            text += " with a leader outside the ISR"
        elif row["cause"] == "leader-restarted":
            text += " under the same leader, which had come back without it"
    if row.get("in_old_topic"):
        text += "; a step of the timeline deleted its topic"
    if holder := row.get("holder"):
        if (holder["producer"], holder["seq"]) == (row["producer"], row["seq"]):
            return f"{text}, and is still there, but its transaction is not committed in the log"
        return f"{text}, and offset {row['offset']:,} now holds {message(holder)}"
    if row.get("in_old_topic"):
        return text
    if row.get("deleted"):
        return f"{text}, and the log now starts above that offset"
    return f"{text}, and the log has nothing there now"


def _removed(row: Row) -> str:
    why = {"step": "a step of the timeline deleted it", "retention": "the log begins above it now"}
    known = "retention" if row["expired"] else "step" if row["deleted_by_step"] else ""
    text = f"{message(row)} was acknowledged at {clock(row['done_ns'])} as {at(row)}"
    return f"{text}; {why.get(known, 'a later message with the same key is stored')}"


def with_acknowledged_epoch(messages: Messages) -> pl.DataFrame:
    """The acknowledged stretches. `epoch` is that of the acknowledged copy, which may be a later one."""
    acked = messages.stretches.filter(ACKED)
    several, at = acked.filter(pl.col("logged") > 1).select("part"), ["part", "place", "offset"]
    if several.is_empty():
        return acked
    copies = messages.copies.join(several, on="part", how="semi")
    copies = copies.select(*at, acknowledged_epoch="epoch").unique(at)
    joined = acked.join(copies, on=at, how="left")
    return joined.with_columns(epoch=pl.coalesce("acknowledged_epoch", "epoch"))


def _by_removal(run: Run) -> dict[Removal, int]:
    """By cause, the number of messages removed as configured."""
    by_removal: Counter[Removal] = Counter()
    for row in run.sums["removed"].iter_rows(named=True):
        cause = Circumstances(**{name: bool(row[name]) for name in _REMOVED}).removed_by
        if cause is not None:
            by_removal[cause] += row["n"]
    return dict(sorted(by_removal.items()))


def not_lost(run: Run) -> int:
    """The number of messages that the settings of their topics removed."""
    return sum(n for cause, n in _by_removal(run).items() if cause != "step")


def _later(row: Row) -> str:
    if row["later_ns"] is None or row["done_ns"] is None:
        return ""
    later_ns = row["later_ns"] - row["done_ns"]
    return f"{round(abs(later_ns) / MS):,} ms {'later' if later_ns >= 0 else 'earlier'} "


def _start(row: Row) -> str:
    return "" if row["later_start"] is None else f"at offset {row['later_start']:,}"


@dataclass(frozen=True)
class Losses(Question):
    """`healed`: when each fault was healed; `directory`: for the table of lost messages."""

    healed: Mapping[str, int | None] = field(default_factory=dict)
    directory: str = ""

    needs = {"places": ("contradicted_acks",)}
    sums = {
        "first_acks_by_epoch": Sum(("producer", "place", "epoch"), (), ("first_ns",)),
        "removed": Sum(_REMOVED, ("n",)),
        "losses": Sum(
            (*LOSS, "fault"),
            ("messages", "after_heal"),
            ("first_ns",),
            ("last_ns",),
        ),
        "loss_windows": Collected((*_SAME, "first_seq", "last_seq", "lost", "first_ack_ns", "last_ack_ns")),
        "deposed": Collected(
            (
                *("place", "later_epoch", "fault", "acks", "lost", "after_election", "after_heal"),
                *("offsets_twice", "first_ns", "last_ns"),
            )
        ),
    }
    passes = {"contradicted_acks": dict.fromkeys(_ACKS, pl.Int64) | _TYPES}
    stories = {"lost": _story, "removed": _removed}
    rules = {
        "removed": VerdictRule(
            "acknowledged {messages were|message was} removed as configured",
            lambda known: ((permitted(why), known.causes.get(cause, 0)) for cause, why in REMOVED.items()),
        ),
        "lost": VerdictRule(
            "acknowledged {messages are|message is} lost",
            lambda known: ((known.on_loss(loss), loss.count) for loss in known.facts.losses),
        ),
    }
    shown_by = MESSAGE

    def of_messages(self, messages: Messages) -> Iterator[Find]:
        """Finds a producer's first acknowledgement in each epoch. Passes on acknowledgements that contradict
        the log; lost messages that the log has but that are not visible; and other missing messages of
        transactions (with its `first_seq`), with their times.
        """
        known = with_acknowledged_epoch(messages).drop_nulls(["place", "epoch", "done_ns_first"])
        yield SumPart("first_acks_by_epoch", known.rename({"done_ns_first": "first_ns"}))
        contradicted = ACKED & ((HAS_OFFSET & ~pl.col("borne_out")) | LOST)
        contradicting = messages.stretches.filter(contradicted | (GONE & pl.col("first_seq").is_not_null()))
        if contradicting.is_empty():
            return
        contradicting = contradicting.with_columns(
            lost=LOST, seen=_seen(messages), first_seq=pl.when(GONE).then("first_seq")
        )
        first, n = contradicting["row"].to_numpy(), contradicting["n"].to_numpy()
        times = (c for name, values in messages.times.items() for c in kept(name, values, first, n))
        yield To("contradicted_acks", contradicting.with_columns(times).select(_ACKS))

    def before_places(self, run: Run) -> Losses:
        directory = str(run.given.evidence.folder.analysis.resolve() / "lost")
        healed = {fault.id: fault.healed_ns for fault in run.given.faults}
        return replace(self, healed=healed, directory=directory)

    def of_places(self, places: Places) -> Iterator[Find]:
        """Counts lost messages by everything that a contract depends on, and writes all to a table."""
        lost, removed = places.lost, places.removed
        yield Cases("removed", removed)
        yield SumPart("removed", removed.select(*_REMOVED, "n"))
        if lost.height:
            write(table(lost, places.known.names), self.directory, places.part)
            yield Cases("lost", lost)
            yield SumPart("losses", kinds(lost, self.healed))
            yield SumPart("loss_windows", windows_of(lost, places.log))
        yield SumPart("deposed", deposed(_since_elections(places.explained_acks, places.known), self.healed))

    def report(self, run: Run) -> Iterator[Reported | Check]:
        """Losses by kind for the verdict; losses of each fault."""
        losses = losses_of(run.sums["losses"], run.names, "messages")
        yield facts(losses=losses)
        yield anomaly("lost", causes=by_cause(losses))
        removed = _by_removal(run)
        yield anomaly("removed", causes=removed)
        after_heal = run.sums["losses"].group_by("fault").agg(pl.col("after_heal").sum())
        late = dict(after_heal.iter_rows())
        for reach in run.reaches:
            id_ = reach.fault.id
            count, first, last = of_fault(run, id_)
            yield fault(
                id_,
                lost=count,
                first_lost_ack_ns=first,
                last_lost_ack_ns=last,
                loss_window_ms=None if first is None or last is None else max(0.0, (last - first) / MS),
                lost_after_heal=late.get(id_, 0),
            )
        for name, n in (("lost", sum(one.count for one in losses)), ("removed", sum(removed.values()))):
            yield Check(name, run.totals.counted(name), n, ("case", "cause"))


def _seen(messages: Messages) -> pl.Expr:
    """Whether a message is known to have been stored: it was delivered to a group, or has a copy anywhere."""
    given = [pl.col(name) > 0 for name in messages.stretches.columns if name.startswith("delivered_")]
    return pl.any_horizontal(*given, pl.col("part").is_in(messages.copies["part"].unique().implode()))


def of_fault(run: Run, fault_id: str) -> tuple[int, int | None, int | None]:
    """(count, first, last acknowledgement in ns) of the losses attributed to a fault."""
    mine = run.sums["losses"].filter(fault=fault_id)
    first, last = mine["first_ns"].min(), mine["last_ns"].max()
    return int(mine["messages"].sum()), first, last  # type: ignore[return-value]


def kinds(lost: pl.DataFrame, healed: Mapping[str, int | None]) -> pl.DataFrame:
    """Counts lost messages by everything that a contract depends on, with first and last acknowledgement, and
    how many were acknowledged after the heal of their fault.
    """
    return lost.group_by(*LOSS, "fault").agg(
        pl.len().cast(pl.Int64).alias("messages"),
        after_heal=(pl.col("done_ns") > _end_of_fault(healed)).sum().cast(pl.Int64),
        first_ns=pl.col("done_ns").min(),
        last_ns=pl.col("done_ns").max(),
    )


def _end_of_fault(healed: Mapping[str, int | None]) -> pl.Expr:
    """When the fault of a row was healed; null if never."""
    ends: Mapping[Any, Any] = {fault: at_ns for fault, at_ns in healed.items() if at_ns is not None}
    return pl.col("fault").replace_strict(ends, default=None, return_dtype=pl.Int64)


def _since_elections(rows: pl.DataFrame, known: Known) -> pl.DataFrame:
    """With the time of the election in `later_ns`: an epoch without a leader has none until the next one."""
    pairs = rows.select("place", "later_epoch").drop_nulls().unique()
    found = [
        (place, epoch, known.leader_history.elected_ns(known.names.located(place), epoch))
        for place, epoch in pairs.iter_rows()
    ]
    schema = dict.fromkeys((*pairs.columns, "elected_ns"), pl.Int64)
    elected = pl.DataFrame(found, schema=schema, orient="row")
    both = rows.join(elected, on=pairs.columns, how="left", maintain_order="left")
    return both.with_columns(later_ns=pl.coalesce("elected_ns", "later_ns")).drop("elected_ns")


def deposed(rows: pl.DataFrame, healed: Mapping[str, int | None]) -> pl.DataFrame:
    """Acknowledgements that a later epoch overwrote, by place, epoch and fault: the columns of Deposed."""
    end, done = _end_of_fault(healed), pl.col("done_ns")
    # What is still there, though not visible, was not overwritten.
    still_there = (pl.col("holder_producer") == pl.col("producer")) & (pl.col("holder_seq") == pl.col("seq"))
    by_epoch = pl.col("cause").is_in(["deposed-leader", "unclean-election", "leader-restarted"])
    over = rows.filter(by_epoch, ~still_there.fill_null(False))
    return over.group_by("place", "later_epoch", "fault").agg(
        acks=pl.len().cast(pl.Int64),
        lost=pl.col("lost").sum().cast(pl.Int64),
        after_election=(done >= pl.col("later_ns")).sum().cast(pl.Int64),
        after_heal=(pl.col("lost") & (done > end)).sum().cast(pl.Int64),
        offsets_twice=pl.col("offset")
        .filter(pl.col("holder_producer").is_not_null())
        .n_unique()
        .cast(pl.Int64),
        first_ns=done.min(),
        last_ns=done.max(),
    )


def table(lost: pl.DataFrame, names: Names) -> pl.DataFrame:
    """The rows of analysis/lost, one per lost message."""
    return lost.select(
        pl.col("producer").cast(pl.Int32),
        "seq",
        *topic_partition(names),
        "offset",
        "attempt_ns",
        "done_ns",
        "cause",
        "fault",
        pl.col("ack_epoch").cast(pl.Int32),
        pl.col("later_epoch").cast(pl.Int32),
        "later_start",
    )


def empty_table(names: Names) -> pl.DataFrame:
    """The table without rows."""
    numbers = ("producer", "seq", "topic", "place", "offset", "attempt_ns", "done_ns", "ack_epoch")
    words = dict.fromkeys(("cause", "fault"), pl.String)
    schema = {**dict.fromkeys((*numbers, "later_epoch", "later_start"), pl.Int64), **words}
    return table(pl.DataFrame(schema=schema), names)


def windows_of(lost: pl.DataFrame, log: pl.DataFrame) -> pl.DataFrame:
    """Runs of lost messages without a stored one in between, per producer, partition, cause and fault."""
    stored = log.filter(NAMED).select("producer", "place", seq=pl.col("seq") + pl.col("n") - 1)
    stored = stored.sort("seq").with_columns(below=pl.int_range(1, pl.len() + 1).over("producer", "place"))
    each = lost.sort("seq").join_asof(stored, on="seq", by=["producer", "place"], check_sortedness=False)
    return (
        each.group_by(*_SAME, pl.col("below").fill_null(0), maintain_order=True)
        .agg(
            first_seq=pl.col("seq").min(),
            last_seq=pl.col("seq").max(),
            lost=pl.len().cast(pl.Int64),
            first_ack_ns=pl.col("done_ns").min(),
            last_ack_ns=pl.col("done_ns").max(),
        )
        .drop("below")
    )


def windows_table(windows: pl.DataFrame, names: Names) -> pl.DataFrame:
    """The rows of analysis/windows, from the result of `windows_of`."""
    return windows.sort("producer", "topic", "place", "first_seq").select(
        pl.col("producer").cast(pl.Int32),
        *topic_partition(names),
        "cause",
        "fault",
        "first_seq",
        "last_seq",
        "lost",
        "first_ack_ns",
        "last_ack_ns",
    )
