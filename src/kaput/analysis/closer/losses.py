"""Why acknowledgements are not borne out by the log: one cause for each, as anomalies.md defines them.

The lost ones are among them; the others explain inconsistent offsets. In SQL: reference/causes.py.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kaput.analysis.closer.causes import ACKS_0, RESTARTED, UNEXPLAINED, Acks, Flags
from kaput.analysis.closer.causes import explain as causes_of
from kaput.analysis.closer.found import Records, first, named
from kaput.analysis.dense.numbers import NULL, Ints
from kaput.analysis.dense.pile import Pile
from kaput.analysis.dense.split import grouped
from kaput.analysis.dense.summary import Edge, Summary
from kaput.analysis.faults import Attempted
from kaput.analysis.names import Names, Place
from kaput.analysis.timeline import FOREVER_NS, Timeline
from kaput.scenario.vocabulary import CAUSES
from kaput.verdict.facts import Circumstances

_MS = 1_000_000


class LossRow(NamedTuple):
    """Lost messages of one kind, and their first and last acknowledgement."""

    producer: int
    topic: int
    cause: str
    messages: int
    known: Circumstances
    fault: str | None
    first_ns: int | None
    last_ns: int | None


@dataclass(frozen=True)
class Explained:
    """Astray acknowledgements, a row each: `rows` as put aside, and beside them what explains them.

    `fault` is a position in `faults`; epochs, starts and times are NULL where none overwrote or they are not
    known. `known` has the fields of Circumstances, in order.
    """

    rows: Pile
    lost: Flags
    cause: Ints
    fault: Ints
    faults: Sequence[str]
    known: Mapping[str, Flags]
    ack_epoch: Ints
    later_epoch: Ints
    later_start: Ints
    later_ns: Ints
    holder_producer: Ints
    holder_seq: Ints

    def kinds(self) -> list[LossRow]:
        """The lost ones by everything that a contract may ask for."""
        at = np.flatnonzero(self.lost)
        keys = (
            self.rows["producer"],
            self.rows["topic"],
            self.cause,
            self.fault,
            *self.known.values(),
        )
        found = []
        for key, here in grouped(*(np.asarray(column[at], np.int64) for column in keys)):
            done = self.rows["done_ns"][at][here]
            told = done[done != NULL]
            ends = (int(told.min()), int(told.max())) if len(told) else (None, None)
            producer, topic, cause, fault, *flags = key
            name = self.faults[fault] if fault >= 0 else None
            known = Circumstances(*map(bool, flags))
            found.append(LossRow(producer, topic, CAUSES[cause], len(done), known, name, *ends))
        return found

    def examples(self, names: Names) -> list[dict[str, Any]]:
        """The first lost messages, with what tells their story."""
        at = np.flatnonzero(self.lost)
        columns = {name: self.rows[name][at] for name in ("producer", "seq", "topic", "place", "offset")}
        columns |= {name: self.rows[name][at] for name in ("attempt_ns", "done_ns")}
        for name in ("cause", "ack_epoch", "later_epoch", "later_start", "later_ns"):
            columns[name] = getattr(self, name)[at]
        columns |= {"holder_producer": self.holder_producer[at], "holder_seq": self.holder_seq[at]}
        return [self._told(row, names) for row in first(columns, ("producer", "seq", "place", "offset"))]

    def _told(self, row: dict[str, Any], names: Names) -> dict[str, Any]:
        holder = None
        if row["holder_producer"] is not None:
            holder = {"producer": row["holder_producer"], "seq": row["holder_seq"]}
        return {**named(row, names), "name": "lost", "cause": CAUSES[row["cause"]], "holder": holder}


def explain(
    summary: Summary,
    timeline: Timeline,
    ends: Mapping[Place, int],
    records: Records,
    names: Names,
    silent: Collection[int],
    attempted: Sequence[Attempted],
) -> Explained:
    """Explains every astray acknowledgement. `silent`: producers with acks=0."""
    pile = summary.piles["astray"]
    known = {e.fault for epochs in timeline.epochs.values() for e in epochs if e.fault}
    faults = sorted(known | {a.fault for a in attempted})
    count = pile.rows
    found = Explained(
        pile,
        lost=pile["lost"] != 0,
        cause=np.full(count, UNEXPLAINED, np.int64),
        fault=np.full(count, -1, np.int64),
        faults=faults,
        known={name: np.zeros(count, bool) for name in Circumstances._fields},
        **{
            name: np.full(count, NULL, np.int64)
            for name in ("ack_epoch", "later_epoch", "later_start", "later_ns")
        },
        holder_producer=np.full(count, NULL, np.int64),
        holder_seq=np.full(count, NULL, np.int64),
    )
    found.known["hole"][:] = pile["offset"] == NULL
    own = _own_epochs(pile, summary.under)
    for (code,), rows in grouped(pile["place"]):
        place = names.place(code) if code != NULL else None
        if place is not None:
            at = np.arange(count)[rows]
            _explain_place(found, at, own[at], place, code, timeline, ends.get(place), records)
    _explain_silent(found, silent, attempted)
    return found


def _own_epochs(pile: Pile, under: Mapping[tuple[int, int, int], int]) -> Ints:
    """The greatest epoch that a producer was acknowledged under by then: it never goes back."""
    own = np.full(pile.rows, NULL, np.int64)
    by_stream: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for (producer, place, epoch), at_ns in under.items():
        by_stream.setdefault((producer, place), []).append((at_ns, epoch))
    for (producer, place), rows in grouped(pile["producer"], pile["place"]):
        known = sorted(by_stream.get((producer, place), []))
        if not known:
            continue
        done = pile["done_ns"][rows]
        greatest = np.maximum.accumulate([NULL, *(epoch for _, epoch in known)])
        by_then = greatest[np.searchsorted([at_ns for at_ns, _ in known], done, side="right")]
        own[rows] = np.where(done == NULL, NULL, by_then)
    return own


def _explain_place(
    found: Explained,
    at: npt.NDArray[np.intp],
    own: Ints,
    place: Place,
    code: int,
    timeline: Timeline,
    end: int | None,
    records: Records,
) -> None:
    epochs = timeline.epochs.get(place, [])
    offset, done = found.rows["offset"][at], found.rows["done_ns"][at]
    taken, found.holder_producer[at], found.holder_seq[at] = records.at(code, offset)
    found.known["isr_of_one"][at] = _alone(timeline, place, done)
    gap = ~taken & (offset != NULL) & (offset < end) if end is not None else np.zeros(len(at), bool)
    found.known["hole"][at] |= gap
    found.known["leaders_known"][at] = timeline.led(place)
    if not epochs:
        return
    own = np.where(own == NULL, epochs[0].number, own)
    why = causes_of(epochs, Acks(own, offset, done, taken, gap))
    found.cause[at], found.ack_epoch[at] = why.cause, why.ack_epoch
    found.known["either_leader"][at] = why.either_leader
    for number, epoch in enumerate(epochs):
        mine = why.epoch == number
        here = at[mine]
        found.known["leaders_known"][here] = why.leaders_known[mine]
        found.fault[here] = found.faults.index(epoch.fault) if epoch.fault else -1
        found.later_epoch[here] = epoch.number
        found.later_start[here] = np.where(why.ack_epoch[mine] == NULL, NULL, epoch.start)
        found.later_ns[here] = NULL if epoch.at_ns is None else epoch.at_ns
        if epoch.unsynced_to_ns is not None:
            restarted = found.cause[here] == RESTARTED
            found.known["unsynced"][here] = restarted & (done[mine] <= epoch.unsynced_to_ns)


def _alone(timeline: Timeline, place: Place, done: Ints) -> Flags:
    """Whether the ISR was the leader alone when it acknowledged."""
    known = [(c.at_ns // _MS, len(c.isr)) for c in timeline.changes.get(place, []) if c.isr is not None]
    sizes = np.array([0, *(size for _, size in known)], np.int64)
    at = np.searchsorted([ms for ms, _ in known], done // _MS, side="right")
    alone: Flags = (sizes[at] == 1) & (done != NULL)
    return alone


def _explain_silent(found: Explained, silent: Collection[int], attempted: Sequence[Attempted]) -> None:
    """Where no acknowledgement was asked for, that is the cause; the latest fault of then is to blame."""
    mute = np.isin(found.rows["producer"], list(silent))
    if not mute.any():
        return
    found.cause[mute], found.fault[mute] = ACKS_0, -1
    attempt = found.rows["attempt_ns"]
    for window in sorted(attempted, key=lambda a: a.from_ns):
        to_ns = FOREVER_NS if window.to_ns is None else window.to_ns
        found.fault[mute & (attempt >= window.from_ns) & (attempt <= to_ns)] = found.faults.index(
            window.fault
        )


def islands(rows: Pile, edges: Mapping[tuple[int, int, int], Sequence[Edge]]) -> Ints:
    """The number of each lost message's island in its stream: those of all chunks counted on."""
    base: dict[tuple[int, int, int, int], int] = {}
    for stream, found in edges.items():
        total, before = 0, False
        for edge in sorted(found):
            start = total - 1 if before and edge.first else total
            base[*stream, edge.chunk] = start
            total, before = start + edge.islands, edge.last
    numbers = np.array(rows["island"])
    for key, here in grouped(rows["producer"], rows["topic"], rows["place"], rows["chunk"]):
        producer, topic, place, chunk = key
        numbers[here] += base[producer, topic, place, chunk]
    return numbers
