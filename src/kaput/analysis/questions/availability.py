"""Availability: what share of messages was acknowledged, and delivered to each group, within a second of the
attempt; and from when to when messages were waiting, and were acknowledged or delivered.

The latter are spells (engine/spells.py): standstills.py finds the times in which nothing came of what was
waiting.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from kaput.analysis.engine.question import Find, Part, Question
from kaput.analysis.engine.spells import joined, ticks
from kaput.analysis.engine.sums import Sum
from kaput.analysis.facts.endings import SHORTEST_NS
from kaput.analysis.questions.latency import end_to_end
from kaput.analysis.runs.columns import ACKED
from kaput.analysis.runs.run import NULL, Flags, Ints
from kaput.core import MS, SECOND
from kaput.scenario.model import Producers

if TYPE_CHECKING:
    from kaput.analysis.facts.inputs import Inputs
    from kaput.analysis.run import Run
    from kaput.analysis.views.messages import Messages

PRODUCERS = -1  # in place of a group: of acknowledgements
NOWHERE = -1  # in place of a place: the partition is not known
WAITING, DONE, GIVEN_UP = range(3)
_KEYS = ("group", "place", "kind")
_NEVER = -(2**62)  # a limit that nothing is within
# The settings of a producer's delivery timeout, and their default in ms, by client.
_TIMEOUTS: Mapping[str, tuple[tuple[str, ...], int]] = {
    "librdkafka": (("message.timeout.ms", "delivery.timeout.ms"), 300_000),
    "java": (("delivery.timeout.ms",), 120_000),
}


@dataclass(frozen=True)
class Availability(Question):
    """`timeout_ns`: by producer, its delivery timeout, where that is known; `reads`: by group, the numbers of
    the topics that it reads, None for all.
    """

    timeout_ns: Mapping[int, int] = field(default_factory=dict)
    reads: Mapping[int, list[int] | None] = field(default_factory=dict)

    sums = {
        "service_spells": Sum((*_KEYS, "first_ns"), (), (), ("last_ns",)),
        "service_counts": Sum(("group", "place"), ("messages", "within_1s", "within_timeout")),
    }

    def before_messages(self, run: Run) -> Availability:
        """What the scenario says of timeouts and topics."""
        topics = run.names.topics
        reads = {
            index: None
            if (named := run.given.reads[name]) is None
            else [topics.index(t) for t in named if t in topics]
            for index, name in enumerate(run.given.groups)
        }
        return replace(self, timeout_ns=timeouts_ns(run.given), reads=reads)

    def of_messages(self, messages: Messages) -> Iterator[Find]:
        """Of acknowledgements, and of the first deliveries to each group."""
        stretches = messages.stretches.with_columns(pl.col("place").fill_null(NOWHERE))
        sent = _Sent(stretches, messages.times["attempts"], messages.times["dones"])
        spells, counts = [sent.spells()], [self._acked(sent)]
        parts = stretches["part"].to_numpy()
        line = np.full(1 + int(parts.max(initial=-1)), -1)
        line[parts] = np.arange(stretches.height)
        for index in messages.groups:
            deliveries = messages.deliveries.filter(group=index)
            attempts, polls = messages.times["attempts"], messages.polls
            part, when, took = end_to_end(stretches, deliveries, attempts, polls)
            of = line[part]
            spells += [
                _spells(stretches, index, WAITING, of, when - took, when),
                _spells(stretches, index, DONE, of, when, when),
            ]
            counts.append(self._delivered(stretches, index, of[took <= SECOND]))
        yield Part("service_spells", pl.concat(spells))
        yield Part("service_counts", pl.concat(counts))

    def _acked(self, sent: _Sent) -> pl.DataFrame:
        """How many messages there are, and how many of them were acknowledged in time."""
        producers = sent.stretches["producer"].to_list()
        limits = np.array([self.timeout_ns.get(p, _NEVER) for p in producers], np.int64)
        took = np.where(sent.acked, sent.dones - sent.attempts, -_NEVER)
        return sent.stretches.select(
            *_of(PRODUCERS),
            messages="n",
            within_1s=_often(sent.of[took <= SECOND], sent.stretches.height),
            within_timeout=_often(sent.of[took <= limits[sent.of]], sent.stretches.height),
        )

    def _delivered(self, stretches: pl.DataFrame, group: int, of: Ints) -> pl.DataFrame:
        """The same of the acknowledged messages of the topics that a group reads."""
        topics = self.reads.get(group)
        mine = ACKED if topics is None else ACKED & pl.col("topic").is_in(topics)
        found = stretches.with_columns(within_1s=_often(of, stretches.height)).filter(mine)
        none = pl.lit(0, pl.Int64).alias("within_timeout")
        return found.select(*_of(group), pl.col("n").alias("messages"), "within_1s", none)


class _Sent:
    """All messages of a task, row by row: `of`, the number of each one's stretch, and whether it was
    acknowledged at a known time.
    """

    def __init__(self, stretches: pl.DataFrame, attempts: Ints, dones: Ints) -> None:
        self.stretches, self.attempts, self.dones = stretches, attempts, dones
        # Sends are cut into stretches without a rest, in the order of their rows.
        self.of: Ints = np.repeat(np.arange(stretches.height), stretches["n"].to_numpy())
        known = dones != NULL
        acked = stretches.select(ACKED).to_series().to_numpy().astype(bool)[self.of]
        self.acked: Flags = known & acked
        self.given_up: Flags = known & ~acked

    def spells(self) -> pl.DataFrame:
        """When they were waiting, acknowledged, and given up."""
        kinds = {DONE: self.acked, GIVEN_UP: self.given_up}
        ends = np.maximum(self.attempts, self.dones)
        return pl.concat(
            [
                _spells(self.stretches, PRODUCERS, WAITING, self.of, self.attempts, ends),
                *(
                    _spells(self.stretches, PRODUCERS, kind, self.of[flags], *[self.dones[flags]] * 2)
                    for kind, flags in kinds.items()
                ),
            ]
        )


def _spells(
    stretches: pl.DataFrame, group: int, kind: int, of: Ints, begin_ns: Ints, end_ns: Ints
) -> pl.DataFrame:
    """(_KEYS, first_ns, last_ns); `of`: the number of each row's stretch."""
    new = np.ones(len(of), bool)
    new[1:] = of[1:] != of[:-1]
    at, first_ns, last_ns = ticks(new, begin_ns, end_ns, SHORTEST_NS)
    found = stretches[of[at]].select(
        *_of(group),
        pl.lit(kind, pl.Int64).alias("kind"),
        first_ns=pl.Series(first_ns, dtype=pl.Int64),
        last_ns=pl.Series(last_ns, dtype=pl.Int64),
    )
    return joined(found, _KEYS, SHORTEST_NS)


def _of(group: int) -> tuple[Any, ...]:
    return pl.lit(group, pl.Int64).alias("group"), pl.col("place")


def _often(of: Ints, size: int) -> pl.Series:
    return pl.Series(np.bincount(of, minlength=size), dtype=pl.Int64)


def timeouts_ns(given: Inputs) -> dict[int, int]:
    """By producer, its delivery timeout; of one whose client kaput does not know none."""
    specs = enumerate(given.scenario.producer_specs() if given.scenario else [])
    found = {number: _timeout_ms(spec) for number, spec in specs}
    return {number: ms * MS for number, ms in found.items() if ms is not None}


def _timeout_ms(spec: Producers) -> int | None:
    if spec.client not in _TIMEOUTS:
        return None
    names, default = _TIMEOUTS[spec.client]
    given = next((str(spec.config[name]) for name in names if name in spec.config), str(default))
    return int(given) if given.isdigit() and int(given) else None
