"""One chunk of messages: what its producer claims, the log holds and each group was handed, laid together.

Every array has one place a message. Here each message gets its fate, as ledger.py defines it in SQL.
Not here: what concerns no single message (summary.py), and the ledger's file (ledger_file.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from kaput.analysis.dense import deliveries, log, sends
from kaput.analysis.dense.context import ACKED, Context
from kaput.analysis.dense.pack import NULL, Ints, unpack
from kaput.analysis.dense.split import grouped
from kaput.analysis.dense.summary import Summary

NOT_SENT = 3  # beside the numbers of outcomes
Flags = npt.NDArray[np.bool_]
_FOREVER = 2**63 - 1
_FEW_RUNS = 256


@dataclass
class Chunk:
    """`seq` and all other arrays have one place a message. Where nothing is known, numbers are NULL.

    stored_place, first_offset and epoch are those of the first copy; delivered and polled_ns go by group.
    borne_out: a copy stands where the acknowledgement says. copies: (slot, place, offset, epoch) of every
    record, more_copies: of the first one in each further place, handed: of each delivery by group (the last:
    when).
    """

    producer: int
    seq: Ints
    sent: Ints
    topic: Ints
    place: Ints
    outcome: Ints
    attempt_ns: Ints
    done_ns: Ints
    offset: Ints
    error: Ints
    words: list[str]
    stored: Ints
    stored_place: Ints
    first_offset: Ints
    epoch: Ints
    unsettled: Flags
    borne_out: Flags
    copies: Sequence[Ints] = ()
    more_copies: Sequence[Ints] = ()
    handed: dict[int, Sequence[Ints]] = field(default_factory=dict)
    delivered: list[Ints] = field(default_factory=list)
    polled_ns: list[Ints] = field(default_factory=list)

    @cached_property
    def claimed(self) -> Flags:
        """Which are acknowledged with an offset."""
        claimed: Flags = (self.outcome == ACKED) & (self.place != NULL) & (self.offset != NULL)
        return claimed

    @cached_property
    def ran(self) -> Flags:
        """Which are messages of the run, and not phantoms or gaps."""
        ran: Flags = self.outcome != NOT_SENT
        return ran

    @cached_property
    def streams(self) -> list[tuple[int, int, Ints]]:
        """(topic, place, positions in the order of seq) of the run's messages."""
        ran = np.flatnonzero(self.ran)
        return [
            (topic, place, ran[rows]) for (topic, place), rows in grouped(self.topic[ran], self.place[ran])
        ]

    @cached_property
    def stream(self) -> Ints:
        """For each message the number of its stream; for what is none, one more than there are."""
        if len(self.streams) == 1 and self.ran.all():
            return np.zeros(len(self.seq), np.int64)
        numbers = np.full(len(self.seq), len(self.streams), np.int64)
        for number, (_, _, rows) in enumerate(self.streams):
            numbers[rows] = number
        return numbers


Blobs = Mapping[int, Sequence[tuple[Any, Sequence[str]]]]  # by source: payloads, and their words


def lay(producer: int, chunk: int, blobs: Blobs, context: Context, summary: Summary) -> Chunk:
    """The chunk of some blobs, and its sums."""
    base = chunk << context.bits
    columns = {source: _joined(source, parts) for source, parts in blobs.items()}
    slots, seq = _slots([found[0] for found, _ in columns.values()], base)
    at = dict(zip(columns, slots, strict=True))
    size = len(seq)
    told, words = columns.get(sends.SOURCE, ([np.empty(0, np.int64)] * sends.PACKED, []))
    laid = _sent(producer, seq, at.get(sends.SOURCE, np.empty(0, np.int64)), told, words)
    if laid.sent.max(initial=0) > 1:
        first = int(seq[np.flatnonzero(laid.sent > 1)[0]])
        summary.sent_twice = min(summary.sent_twice or (producer, first), (producer, first))
    if log.SOURCE in columns:
        _stored(laid, at[log.SOURCE], columns[log.SOURCE][0], summary)
    laid.unsettled |= (laid.claimed & ~laid.borne_out) | (laid.stored > 1)
    for group in range(len(context.names.groups)):
        if group in columns:
            _handed(laid, group, at[group], columns[group][0])
        else:
            laid.delivered.append(np.zeros(size, np.int64))
            laid.polled_ns.append(np.full(size, NULL, np.int64))
    return laid


def _joined(source: int, parts: Sequence[tuple[Any, Sequence[str]]]) -> tuple[list[Ints], list[str]]:
    """The columns of all blobs of one source, and the words that errors are numbers of."""
    width = {sends.SOURCE: sends.PACKED, log.SOURCE: log.PACKED}.get(source, deliveries.PACKED)
    words: dict[str, int] = {}
    found: list[list[Ints]] = []
    for payload, said in parts:
        # Sends that were read where they are laid together are arrays already.
        columns = list(payload) if isinstance(payload, list) else list(unpack(payload, width))
        if source == sends.SOURCE:
            if not isinstance(payload, list):
                columns = sends.unpacked(columns)
            if said:
                known = np.array([words.setdefault(w, len(words)) for w in said] + [-1], np.int64)
                columns[-1] = known[columns[-1]]
        found.append(columns)
    if len(found) == 1:
        return found[0], list(words)
    return [np.concatenate(column) for column in zip(*found, strict=True)], list(words)


def _slots(rels: Sequence[Ints], base: int) -> tuple[list[Ints], Ints]:
    """Where each row goes, and the seq of each place: dense where that costs little, else by rank."""
    rows = sum(len(rel) for rel in rels)
    size = max(int(rel.max(initial=-1)) for rel in rels) + 1
    if size <= 4 * rows + 64:
        return list(rels), base + np.arange(size, dtype=np.int64)
    known = np.unique(np.concatenate(rels))
    return [np.searchsorted(known, rel) for rel in rels], base + known


def _sent(producer: int, seq: Ints, at: Ints, told: Sequence[Ints], words: list[str]) -> Chunk:
    size = len(seq)
    everyone = _each_once(at, size)
    nothing = [NULL, NULL, NOT_SENT, NULL, NULL, NULL, -1]
    columns = told[1:]
    if not everyone:
        runs = _runs(at)
        columns = [
            _spread(at, column, size, none) if runs is None else _spread_runs(runs, column, size, none)
            for column, none in zip(columns, nothing, strict=True)
        ]
    topic, place, outcome, attempt, done, offset, error = columns
    return Chunk(
        producer,
        seq,
        sent=np.ones(size, np.int64) if everyone else np.bincount(at, minlength=size),
        topic=topic,
        place=place,
        outcome=outcome,
        attempt_ns=attempt,
        done_ns=done,
        offset=offset,
        error=error,
        words=words,
        stored=np.zeros(size, np.int64),
        stored_place=np.full(size, NULL, np.int64),
        first_offset=np.full(size, NULL, np.int64),
        epoch=np.full(size, NULL, np.int64),
        unsettled=np.zeros(size, bool),
        borne_out=np.zeros(size, bool),
    )


def _each_once(at: Ints, size: int) -> bool:
    """Whether there is a row for each place, in their order."""
    return len(at) == size and bool((at == np.arange(size)).all())


def _runs(at: Ints) -> list[tuple[int, int, int]] | None:
    """(first row, row after the last, place of the first) of stretches of neighbours; None for too many."""
    ends = np.flatnonzero(np.diff(at) != 1) + 1
    if len(ends) > _FEW_RUNS:
        return None
    bounds = [0, *ends.tolist(), len(at)]
    return [(first, end, int(at[first])) for first, end in pairwise(bounds) if end > first]


def _spread_runs(runs: Sequence[tuple[int, int, int]], values: Ints, size: int, nothing: int) -> Ints:
    """As `_spread`, stretch by stretch: copies instead of look-ups."""
    spread = np.full(size, nothing, np.int64)
    for first, end, to in runs:
        spread[to : to + end - first] = values[first:end]
    return spread


def _spread(at: Ints, values: Ints, size: int, nothing: int) -> Ints:
    """Values at their places, `nothing` elsewhere."""
    spread = np.full(size, nothing, np.int64)
    spread[at] = values
    return spread


def _stored(laid: Chunk, at: Ints, records: Sequence[Ints], summary: Summary) -> None:
    """How often each message is stored, and where first."""
    _, place, offset, epoch = records
    laid.stored = np.bincount(at, minlength=len(laid.seq))
    laid.copies = at, place, offset, epoch
    borne_out = (offset == laid.offset[at]) & (place == laid.place[at])
    laid.borne_out[at if borne_out.all() else at[borne_out]] = True
    epoch = np.where(epoch >= 0, epoch, NULL)
    laid.stored_place[at], laid.first_offset[at], laid.epoch[at] = place, offset, epoch
    if laid.stored.max(initial=0) > 1:
        rows = np.flatnonzero(laid.stored[at] > 1)
        rows = rows[np.lexsort((place[rows], offset[rows], at[rows]))]
        at, place, offset, epoch = at[rows], place[rows], offset[rows], epoch[rows]
        _twice(laid, at, place, offset, summary)
        laid.more_copies = _further(at, place, offset, epoch)
        first = np.ones(len(at), bool)
        first[1:] = at[1:] != at[:-1]
        slots = at[first]
        laid.stored_place[slots], laid.first_offset[slots] = place[first], offset[first]
        laid.epoch[slots] = epoch[first]


def _further(at: Ints, place: Ints, offset: Ints, epoch: Ints) -> Sequence[Ints]:
    """The first copies in every place but that of the first of all. Rows are in order of (at, offset)."""
    _, first = np.unique(at, return_index=True)
    _, first_there = np.unique(np.stack([at, place]), axis=1, return_index=True)
    further = np.setdiff1d(first_there, first)
    return at[further], place[further], offset[further], epoch[further]


def _twice(laid: Chunk, at: Ints, place: Ints, offset: Ints, summary: Summary) -> None:
    """The same record twice in the log table: broken evidence. Rows are in order of (at, offset, place)."""
    same = (at[1:] == at[:-1]) & (place[1:] == place[:-1]) & (offset[1:] == offset[:-1])
    for i in np.flatnonzero(same):
        here = (at == at[i]) & (place == place[i]) & (offset == offset[i])
        times = int(np.count_nonzero(here))
        found = int(place[i]), int(offset[i]), laid.producer, int(laid.seq[at[i]]), times
        summary.logged_twice = min(summary.logged_twice or found, found)
        return


def _handed(laid: Chunk, group: int, at: Ints, handed: Sequence[Ints]) -> None:
    """How often a group was handed each message, when first, and whether from where it is stored."""
    _, place, offset, polled = handed
    laid.handed[group] = at, place, offset, polled
    size = len(laid.seq)
    times = np.bincount(at, minlength=size)
    elsewhere = (place != laid.stored_place[at]) | (offset != laid.first_offset[at])
    if elsewhere.any():
        laid.unsettled[at[elsewhere]] = True
    first_ns = _spread(at, polled, size, NULL)
    if times.max(initial=0) > 1:
        rows = np.flatnonzero(times[at] > 1)
        first_ns[at[rows]] = _FOREVER
        np.minimum.at(first_ns, at[rows], polled[rows])
    laid.delivered.append(times)
    laid.polled_ns.append(first_ns)


def _counts(codes: Ints, cells: int) -> list[tuple[int, int]]:
    """How often each code below `cells` is there, where it is."""
    counts = np.bincount(codes, minlength=cells)[:cells]
    found = np.flatnonzero(counts)
    return list(zip(found.tolist(), counts[found].tolist(), strict=True))


def total(laid: Chunk, summary: Summary) -> None:
    """Adds the chunk's fates and latencies to the sums."""
    ran, everyone = laid.ran, bool(laid.ran.all())
    summary.unsettled += int(np.count_nonzero(laid.unsettled))
    if not everyone:
        summary.phantom_records += int(laid.stored[~ran].sum())
    copies = laid.stored[ran] if laid.stored.max(initial=0) > 1 else np.empty(0, np.int64)
    summary.extra_copies += int(copies.sum() - np.count_nonzero(copies))
    # One number for stream, outcome and stored: those of phantoms and gaps come last, and are not told.
    state = laid.stream * 9 + laid.outcome * 3 + np.minimum(laid.stored, 2)
    cells = 9 * len(laid.streams)
    for cell, messages in _counts(state, cells):
        topic, place, _ = laid.streams[cell // 9]
        summary.cells[laid.producer, topic, place, cell // 3 % 3, cell % 3] += messages
    for group, times in enumerate(laid.delivered):
        for cell, messages in _counts(state * 3 + np.minimum(times, 2), 3 * cells):
            topic, place, _ = laid.streams[cell // 27]
            summary.group_cells[group, topic, place, cell // 9 % 3, cell // 3 % 3, cell % 3] += messages
    for group, polled in enumerate(laid.polled_ns):
        heard = (laid.delivered[group] > 0) & ran if not everyone else laid.delivered[group] > 0
        rows_ = slice(None) if heard.all() else np.flatnonzero(heard)
        summary.end_to_end[group].add_ns(polled[rows_] - laid.attempt_ns[rows_])
