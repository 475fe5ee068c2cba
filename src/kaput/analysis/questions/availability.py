"""Availability: the share of messages that was acknowledged, or delivered to each group, within a second of
the attempt; and when messages were waiting, and were acknowledged or delivered.

Of a group only what it had to be delivered counts: what is stored and visible (or may be: its partition was
not read to its end), of its topics, from where it began. Times are spells (engine/spells.py). Not here:
finding silences in them (silences.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from kaput.analysis.engine.question import Find, Question, SumPart
from kaput.analysis.engine.spells import (
    DONE,
    FAILED,
    GIVEN_UP,
    LONG,
    PRODUCERS,
    REPEATED,
    WAITING,
    joined,
    ticks,
)
from kaput.analysis.engine.sums import Sum, grouped
from kaput.analysis.facts.inputs import Inputs
from kaput.analysis.facts.waits import SHORTEST_NS
from kaput.analysis.questions.latency import first_deliveries
from kaput.analysis.questions.unseen import left_behind, moved, owed
from kaput.analysis.run import Run
from kaput.analysis.runs.columns import ACKED, DUE, GONE
from kaput.analysis.runs.run import NULL, Flags, Ints, picked
from kaput.analysis.views.messages import Messages
from kaput.core import MS, SECOND
from kaput.scenario.model import Producers, pipe_producers

NOBODY = -1  # instead of a producer: in the spells of a group
NOWHERE = -1  # instead of a place: partition unknown
_KEYS = ("group", "producer", "place", "kind")
_UNKNOWN = -1  # instead of a timeout
_TALLIES = ("within_1s", "within_timeout", "untimed")


@dataclass(frozen=True)
class Timeouts:
    """Delivery timeouts in ns, None if unknown: of producers, by number, and of pipes, among which higher
    numbers are dealt in turn (scenario/model.py: producer_number).
    """

    producers: Sequence[int | None] = ()
    pipes: Sequence[int | None] = ()

    @classmethod
    def given_by(cls, given: Inputs) -> Timeouts:
        """Those of a run's scenario."""
        if given.scenario is None:
            return cls()
        made = pipe_producers(given.scenario)
        return cls(list(map(_ns, given.scenario.producer_specs())), list(map(_ns, made)))

    @property
    def known(self) -> bool:
        """Whether there are any, and all are known."""
        every = [*self.producers, *self.pipes]
        return bool(every) and None not in every

    def of(self, producer: int) -> int | None:
        """That of a producer."""
        if producer < len(self.producers):
            return self.producers[producer] if producer >= 0 else None
        return self.pipes[(producer - len(self.producers)) % len(self.pipes)] if self.pipes else None


@dataclass(frozen=True)
class PartitionAvailability(Question):
    """`timeouts`: of the producers; `reads`: by group, the numbers of the topics
    that it reads, None for all; `beginnings`: where late groups began (facts/group_starts.py); `moved`: by
    group that was in several clusters, the topics of its last one; `mirrored`: whether there are mirrors;
    `cleaned`: partitions whose log may have removed messages.
    """

    timeouts: Timeouts = field(default_factory=Timeouts)
    reads: Mapping[int, list[int] | None] = field(default_factory=dict)
    beginnings: pl.DataFrame = field(default_factory=pl.DataFrame)
    moved: Mapping[int, Collection[Collection[int]]] = field(default_factory=dict)
    mirrored: bool = False
    cleaned: Sequence[int] = ()

    sums = {
        "service_spells": Sum((*_KEYS, "first_ns"), (), (), ("last_ns",)),
        "service_counts": Sum(("group", "place"), ("messages", "within_1s", "within_timeout")),
        "untimed_acks": Sum(("place",), ("n",)),
    }

    def before_messages(self, run: Run) -> PartitionAvailability:
        """Sets timeouts and topics, from the scenario."""
        reads = topics_read(run.given, run.names.topics)
        timeouts = Timeouts.given_by(run.given)
        mirrored = bool(run.mirrors)
        known = replace(self, timeouts=timeouts, reads=reads, beginnings=run.beginnings, mirrored=mirrored)
        cleaned = [run.names.code(place) for place in sorted(run.partitions.ends) if run.cleaned(place)]
        return replace(known, moved=moved(run), cleaned=cleaned)

    def of_messages(self, messages: Messages) -> Iterator[Find]:
        """Spells and counts of acknowledgements, and of first deliveries to each group."""
        sent = messages.stretches.with_columns(pl.col("place").fill_null(NOWHERE))
        # A group gets a message from where it is stored.
        stored = messages.stretches.with_columns(
            pl.coalesce("first_place", "place", pl.lit(NOWHERE)).alias("place")
        )
        spells, counts = [], []
        for group, stretches, found in [
            (PRODUCERS, sent, self._acked(sent, messages)),
            *((index, stored, self._delivered(stored, messages, index)) for index in messages.groups),
        ]:
            spells.append(found.frame(group, stretches))
            tallies = {name: pl.Series(n, dtype=pl.Int64) for name, n in found.tallies.items()}
            of_group = pl.lit(group, pl.Int64).alias("group")
            if group == PRODUCERS:
                timed = (pl.col("n") - pl.col("untimed")).alias("messages")
                of_place = stretches.with_columns(**tallies).select(
                    of_group, self._partition(), timed, *_TALLIES
                )
                counts.append(of_place)
                continue
            counted = of_group, "place", pl.col("n").alias("messages")
            due, reached = self._due(group), pl.col(f"delivered_{group}") > 0
            of_due = stretches.with_columns(**tallies).select(*counted, *_TALLIES, due=due & reached)
            counts.append(of_due.filter("due").drop("due"))
            never = self._never_delivered(stretches.filter(due & ~reached), messages, group)
            counts.append(never.select(*counted, **dict.fromkeys(_TALLIES, pl.lit(0, pl.Int64))))
        every = pl.concat(counts)
        yield SumPart("service_spells", _merged(pl.concat(spells)))
        yield SumPart("service_counts", every.drop("untimed"))
        yield SumPart("untimed_acks", every.filter(group=PRODUCERS).select("place", n="untimed"))

    def _partition(self) -> pl.Expr:
        """The partition that the client tells, or the log; with mirrors, the log may have only a copy."""
        if self.mirrored:
            return pl.col("place")
        logged = pl.coalesce("first_place", pl.lit(NOWHERE)).alias("place")
        return pl.when(pl.col("place") == NOWHERE).then(logged).otherwise(pl.col("place")).alias("place")

    def _due(self, group: int) -> pl.Expr:
        """Whether a stretch is one of what a group has to be delivered, wherever it began."""
        topics = self.reads.get(group)
        if topics is None:
            return DUE
        read = pl.col("home_topic").is_in(topics)
        # A group that reads a mirror's copies is delivered messages whose home it does not read.
        return DUE & (read | (pl.col(f"delivered_{group}") > 0)) if self.mirrored else DUE & read

    def _never_delivered(self, due_: pl.DataFrame, messages: Messages, group: int) -> pl.DataFrame:
        """(place, n): of stretches that were not delivered to a group, what it had to be delivered: not what
        was stored before it began, or is not in the cluster that it moved to.
        """
        mine = due_.with_columns(group=pl.lit(group, pl.Int64))
        away = left_behind(mine, messages, {group: self.moved[group]} if group in self.moved else {})
        here = mine.join(away.select("part"), on="part", how="anti")
        if self.beginnings.filter(group=group).is_empty():
            return here.select("place", "n")
        stored = here.filter(pl.col("first_place").is_not_null())
        return owed(stored, self.beginnings, messages.times).select("n", place="first_place")

    def _acked(self, stretches: pl.DataFrame, messages: Messages) -> _Found:
        """Of acknowledgements. By whole stretches if no message can have waited long, else by message."""
        attempts, dones = messages.times["attempts"], messages.times["dones"]
        sent = [stretches[name].to_numpy() for name in ("attempt_ns_first", "attempt_ns_last")]
        acked = _flags(stretches, ACKED)
        row, n = (stretches[name].to_numpy() for name in ("row", "n"))
        producers, producer_of = np.unique(stretches["producer"].to_numpy(), return_inverse=True)
        each = [self.timeouts.of(int(p)) or _UNKNOWN for p in producers]
        limits = np.array(each, np.int64)[producer_of]
        done = _ends(dones, row, n)
        until = np.maximum(sent[1], done[1])
        short = (limits < SHORTEST_NS) & (limits != _UNKNOWN)
        wide = (done[0] == NULL) | (until - sent[0] >= SHORTEST_NS) | short
        found = _Found(len(n))
        every, whole = np.arange(len(n)), ~wide
        found.add(WAITING, whole, every, sent[0], until)
        found.add(FAILED, whole & ~acked, every, sent[0], until)
        found.add(DONE, whole & acked, every, *done)
        found.add(GIVEN_UP, whole & ~acked, every, *done)
        for name in ("within_1s", "within_timeout"):
            found.tallies[name] = np.where(~wide & acked, n, 0)
        wide_rows = np.flatnonzero(wide)
        of = np.repeat(wide_rows, n[wide_rows])
        begin, end = (picked(times, row[wide_rows], n[wide_rows]) for times in (attempts, dones))
        # An acknowledgement without a time may have come at once: nothing is known of its wait.
        untimed, ended = acked[of] & (end == NULL), acked[of] & (end != NULL)
        found.count("untimed", of[untimed])
        over = np.maximum(begin, end)
        found.add(WAITING, ~untimed, of, begin, over)
        found.add(LONG, ended & (over - begin >= SHORTEST_NS), of, begin, over)
        found.add(FAILED, ~acked[of], of, begin, over)
        found.add(DONE, ended, of, end, end)
        found.add(GIVEN_UP, ~acked[of] & (end != NULL), of, end, end)
        of, took_ns = of[ended], (end - begin)[ended]
        found.count("within_1s", of[took_ns <= SECOND])
        found.count("within_timeout", of[took_ns <= limits[of]])
        return found

    def _delivered(self, stretches: pl.DataFrame, messages: Messages, group: int) -> _Found:
        """Of first deliveries to a group. Also by message where one was delivered more than once. What was
        lost or aborted does not wait, though it may have been delivered; what a cleaned log has removed does.
        """
        removed = ACKED & GONE & pl.col("place").is_in(list(self.cleaned))
        waits = _flags(stretches, self._due(group) | removed)
        found = _Found(stretches.height)
        parts = stretches["part"].to_numpy()
        part = messages.deliveries["part"].to_numpy()
        line = np.full(1 + max(int(each.max(initial=-1)) for each in (parts, part)), -1)
        line[parts] = np.arange(len(parts))
        deliveries = messages.deliveries.filter(pl.Series(line[part] >= 0), group=group)
        attempts, polls = messages.times["attempts"], messages.polls
        part, row, n = (deliveries[name].to_numpy() for name in ("part", "row", "n"))
        of = line[part]
        sent_ns = stretches.select("attempt_ns_first", "attempt_ns_last")[of]
        begin, end = (column.to_numpy() for column in sent_ns.get_columns())
        polled = _ends(polls, row, n)
        until = np.maximum(end, polled[1])
        often = np.bincount(part)[part] > 1
        wide = (until - begin >= SHORTEST_NS) | often
        whole = ~wide
        again_ns = picked(polls, row[often], n[often])
        found.add(REPEATED, np.ones(len(again_ns), bool), np.repeat(of[often], n[often]), again_ns, again_ns)
        found.add(WAITING, whole & waits[of], of, begin, until)
        found.add(DONE, whole, of, *polled)
        found.tallies["within_1s"][of[whole]] = n[whole]
        by_message = deliveries.filter(pl.Series(wide))
        for first in first_deliveries(stretches, by_message, attempts, polls):
            of, begin, when = np.repeat(line[first.part], first.n), first.since_ns, first.polled_ns
            waiting, took_ns = waits[of], when - begin
            found.add(WAITING, waiting, of, begin, np.maximum(when, begin))
            found.add(LONG, waiting & (took_ns >= SHORTEST_NS), of, begin, when)
            found.add(DONE, np.ones(len(of), bool), of, when, when)
            found.count("within_1s", of[took_ns <= SECOND])
        return found


class _Found:
    """Spells of some stretches (kind, index of the stretch, first_ns, last_ns); and `tallies`: by name, the
    number of messages of each stretch.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.spells: list[tuple[int, Ints, Ints, Ints]] = []
        self.tallies: dict[str, Ints] = {name: np.zeros(size, np.int64) for name in _TALLIES}

    def add(self, kind: int, chosen: Flags, of: Ints, first_ns: Ints, last_ns: Ints) -> None:
        """Adds the chosen spells, of a kind. Merges those of one stretch that begin within the same tick."""
        of, first_ns, last_ns = of[chosen], first_ns[chosen], last_ns[chosen]
        new = np.ones(len(of), bool)
        new[1:] = of[1:] != of[:-1]
        at, first_ns, last_ns = ticks(new, first_ns, last_ns, SHORTEST_NS)
        self.spells.append((kind, of[at], first_ns, last_ns))

    def frame(self, group: int, stretches: pl.DataFrame) -> pl.DataFrame:
        """All spells, with _KEYS. `group`: or PRODUCERS, whose spells are of each producer."""
        of, first_ns, last_ns = (np.concatenate(each) for each in list(zip(*self.spells, strict=True))[1:])
        kind = np.repeat([spell[0] for spell in self.spells], [len(spell[1]) for spell in self.spells])
        producer, place = (stretches[name].to_numpy()[of] for name in ("producer", "place"))
        producer = producer if group == PRODUCERS else np.full(len(of), NOBODY)
        columns = np.full(len(of), group), producer, place, kind, first_ns, last_ns
        return pl.DataFrame(dict(zip((*_KEYS, "first_ns", "last_ns"), columns, strict=True)))

    def count(self, name: str, of: Ints) -> None:
        """Counts one more message of each of these stretches."""
        self.tallies[name] = self.tallies[name] + np.bincount(of, minlength=self.size)


def _flags(frame: pl.DataFrame, chosen: pl.Expr) -> Flags:
    found: Flags = frame.select(chosen.fill_null(False)).to_series().to_numpy().astype(bool)
    return found


def _ends(values: Ints, row: Ints, n: Ints) -> tuple[Ints, Ints]:
    """For each row: the minimum and maximum of `n` values from index `row` on."""
    taken, begin = picked(values, row, n), np.cumsum(n) - n
    return np.minimum.reduceat(taken, begin), np.maximum.reduceat(taken, begin)


def _merged(spells: pl.DataFrame) -> pl.DataFrame:
    """Merges spells of one place that are less than a second apart; long waits only where they overlap."""
    tick = pl.col("first_ns") // SHORTEST_NS
    keys = (*_KEYS, tick.alias("tick"))
    few = grouped(spells, keys, pl.col("first_ns").min(), pl.col("last_ns").max())
    long = pl.col("kind") == LONG
    return pl.concat([joined(few.filter(long), _KEYS, 0), joined(few.filter(~long), _KEYS, SHORTEST_NS)])


def topics_read(given: Inputs, topics: Sequence[str]) -> dict[int, list[int] | None]:
    """By group, the numbers of the topics that it reads; None for all."""
    named = enumerate(given.reads[group] for group in given.groups)
    return {
        group: None if names is None else [topics.index(name) for name in names if name in topics]
        for group, names in named
    }


def _ns(spec: Producers) -> int | None:
    return None if spec.delivery_timeout_ms is None else spec.delivery_timeout_ms * MS
