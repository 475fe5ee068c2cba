"""Which transactions held back the last stable offset of a partition from a group, until when, and what shows
that they were ended. Defined in docs/GLOSSARY.md (waited for).

What holds a group back is found by its offsets (questions/transactions.py: HeldBack). Not here: when the
coordinator of a transaction was down (coordinators.py), and what else a group waits for (waits.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import polars as pl

from kaput.analysis.facts.coordinators import Outages, by_place
from kaput.analysis.runs.names import Names
from kaput.core import FOREVER_NS, MS, SECOND, TopicPartition, duration
from kaput.evidence.reading import Evidence, distinct
from kaput.scenario.model import Scenario, spec_of

SHORTEST_NS = SECOND  # of a transaction that is looked at: a silence lasts as long
_ENDED = ("committed", "aborted")
OF_RECORD = ("producer", "first_seq", "place")


class Transaction(NamedTuple):
    """A row of `transactions` that began at a known time. `end_ns`: when its producer learned its outcome, or
    gave it up; `id`: its producer's transactional.id.
    """

    producer: int
    first_seq: int
    number: int
    outcome: str
    begin_ns: int
    end_ns: int | None
    last_seq: int
    id: str | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it has no messages; the next one then begins with the same number."""
        return self.last_seq < self.first_seq

    @property
    def is_long(self) -> bool:
        """Whether it may have been open for as long as a silence lasts."""
        learned = self.outcome in _ENDED and self.end_ns is not None
        return not learned or (self.end_ns or 0) - self.begin_ns >= SHORTEST_NS

    def __str__(self) -> str:
        return f"transaction {self.number:,} of producer {self.producer}"


class Held(NamedTuple):
    """A transaction that held a group back in a partition: `from_ns`, when its first record there was
    attempted; `offset`, its offset; `passed_ns`, the first delivery from there on; `acked`: when the last of
    its messages was acknowledged, and where.
    """

    of: Transaction
    place: TopicPartition
    offset: int
    from_ns: int
    passed_ns: int
    acked: tuple[int, Sequence[TopicPartition]] | None = None


class Hold(NamedTuple):
    """When a transaction held back what a group waited for, and what shows its end."""

    from_ns: int
    to_ns: int
    record: str
    of: Transaction


def transactions(evidence: Evidence) -> dict[int, list[Transaction]]:
    """By producer, by time. Raises EvidenceError."""
    found: dict[int, list[Transaction]] = {}
    columns = ("producer", "first_seq", "transaction", "outcome", "begin_ns", "end_ns", "last_seq")
    for row in distinct(evidence, "transactions", (*columns, "transactional_id")):
        one = Transaction(*row)
        if None not in (one.producer, one.first_seq, one.begin_ns):
            found.setdefault(one.producer, []).append(one)
    return {producer: sorted(mine, key=lambda one: one.begin_ns) for producer, mine in found.items()}


def held(
    by_producer: Mapping[int, Sequence[Transaction]],
    records: pl.DataFrame,
    passed: pl.DataFrame,
    names: Names,
    groups: Sequence[str],
) -> dict[tuple[str, TopicPartition], list[Held]]:
    """By group and partition. `records` and `passed`: sums of questions/transactions.py."""
    last_ns = pl.col("done_ns").max().over("producer", "first_seq")
    last = records.filter(pl.col("done_ns") == last_ns).select("producer", "first_seq", "done_ns", "place")
    acked: dict[tuple[int, int], tuple[int, list[TopicPartition]]] = {}
    for producer, first_seq, done_ns, place in last.sort("place").iter_rows():
        acked.setdefault((producer, first_seq), (done_ns, []))[1].append(names.located(place))
    every = (one for mine in by_producer.values() for one in mine)
    known = {one[:2]: one for one in every if not one.is_empty}
    first = records.select(*OF_RECORD, "offset", "at_ns").join(passed, on=OF_RECORD)
    found: dict[tuple[str, TopicPartition], list[Held]] = {}
    for row in first.iter_rows(named=True):
        key, where = (row["producer"], row["first_seq"]), names.located(row["place"])
        one = Held(known[key], where, row["offset"], row["at_ns"], row["passed_ns"], acked.get(key))
        found.setdefault((groups[row["group"]], where), []).append(one)
    return found


def holds(
    held: Iterable[Held],
    within: tuple[int, int],
    samples: Samples,
    coordinators: Outages,
    scenario: Scenario | None,
) -> list[Hold]:
    """Those that held up a group in a silence, which a delivery from their first records on ended."""
    from_ns, to_ns = within
    found = []
    for one in held:
        end = _end(one, to_ns, samples) if from_ns < one.passed_ns <= to_ns else None
        since_ns = max(one.from_ns, from_ns)
        if end is not None and since_ns < end.to_ns:
            text = end.record + _late(one, scenario, end.to_ns) + _acked_elsewhere(one, (since_ns, end.to_ns))
            down_ns = coordinators.certain_ns(one.of.producer, (since_ns, end.to_ns))
            down = f" (its coordinator was down for {duration(down_ns / SECOND)} of it)"
            found.append(Hold(since_ns, end.to_ns, text + (down if down_ns >= MS else ""), one.of))
    return found


def _end(one: Held, to_ns: int, samples: Samples) -> Hold | None:
    """What first shows that it was ended: its producer learned so, unless a later sample has the last stable
    offset still at its first record; else a sample above that, or the delivery. None if nothing was sampled.
    """
    of, last_ns = one.of, samples.last_at(one.place, one.offset, to_ns)
    if of.outcome in _ENDED and of.end_ns is not None and of.end_ns >= last_ns:
        return Hold(one.from_ns, min(of.end_ns, to_ns), f"{of} was {of.outcome}", of)
    if not last_ns:
        return None
    above_ns = samples.first_above(one.place, one.offset, last_ns)
    record = f"the last stable offset of {one.place} went past {of}"
    return Hold(one.from_ns, min(above_ns, to_ns), record, of)


def _late(one: Held, scenario: Scenario | None, to_ns: int) -> str:
    """That it had timed out, of one whose producer did not learn its end."""
    spec = spec_of(scenario, one.of.producer) if scenario is not None else None
    if spec is None or one.of.outcome in _ENDED:
        return ""
    late = one.of.begin_ns + spec.transaction_timeout_ms * MS <= to_ns
    return f", whose transaction.timeout.ms ({spec.transaction_timeout_ms:,}) had passed" if late else ""


def _acked_elsewhere(one: Held, within: tuple[int, int]) -> str:
    """That it had waited for an acknowledgement in another partition."""
    at_ns, places = one.acked or (0, ())
    if one.place in places or not within[0] < at_ns <= within[1]:
        return ""
    before = duration((within[1] - at_ns) / SECOND)
    return f", {before} after the last acknowledgement in it, on {places[0]}"


class Samples:
    """Last stable offsets and high watermarks over time."""

    def __init__(self, rows: Iterable[Mapping[str, object]]) -> None:
        self._by_place: Mapping[TopicPartition, Sequence[tuple[int, int, int]]] = {
            place: [(at_ns, stable[at_ns], marks[at_ns]) for at_ns in sorted(stable.keys() & marks.keys())]
            for place, (stable, marks) in by_place(rows).items()
        }

    def last_at(self, place: TopicPartition, offset: int, until_ns: int) -> int:
        """The last sample before that with the last stable offset there, below the high watermark, or 0."""
        rows = self._by_place.get(place, ())
        return max((at for at, stable, mark in rows if at < until_ns and stable == offset < mark), default=0)

    def first_above(self, place: TopicPartition, offset: int, since_ns: int) -> int:
        """The first sample after that with the last stable offset above."""
        rows = self._by_place.get(place, ())
        return next((at for at, stable, _ in rows if at > since_ns and stable > offset), FOREVER_NS)
