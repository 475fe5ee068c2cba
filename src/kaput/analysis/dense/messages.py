"""One chunk of messages: what its producer claims, the log holds and each group was handed, laid together.

Every array has one place a message. Here each message gets its fate, as ledger.py defines it in SQL.
Not here: what concerns no single message (summary.py), and the ledger's file (ledger_file.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from kaput.analysis.dense import deliveries, log, sends, settling
from kaput.analysis.dense.context import ACKED, Context
from kaput.analysis.dense.numbers import NULL, Ints
from kaput.analysis.dense.pack import unpack
from kaput.analysis.dense.summary import Summary

NOT_SENT = 3  # beside the numbers of outcomes
Flags = npt.NDArray[np.bool_]


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
    def stream(self) -> Ints:
        """For each message the number of its stream; for what is none, one more than there are."""
        return self._numbered[0]

    @cached_property
    def streams(self) -> list[tuple[int, int]]:
        """(topic, place) of each stream."""
        first = self._numbered[1]
        return list(zip(self.topic[first].tolist(), self.place[first].tolist(), strict=True))

    @cached_property
    def _numbered(self) -> tuple[Ints, Ints]:
        return settling.streams(self.topic, self.place, self.ran)


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
    if source != sends.SOURCE:
        return list(unpack([payload for payload, _ in parts], width)), []
    found: list[list[Ints]] = []
    for payload, said in parts:
        # Sends that were read where they are laid together are arrays already.
        columns = payload if isinstance(payload, list) else sends.unpacked(list(unpack([payload], width)))
        if said:
            known = np.array([words.setdefault(w, len(words)) for w in said] + [-1], np.int64)
            columns = [*columns[:-1], known[columns[-1]]]
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
    columns = [np.ascontiguousarray(column) for column in told[1:]]
    if not everyone:
        at = np.ascontiguousarray(at)
        columns = [
            settling.spread(at, column, size, none) for column, none in zip(columns, nothing, strict=True)
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


def _stored(laid: Chunk, at: Ints, records: Sequence[Ints], summary: Summary) -> None:
    """How often each message is stored, and where first."""
    _, place, offset, epoch = records
    laid.copies = at, place, offset, epoch
    laid.stored_place, laid.first_offset, laid.epoch, most = settling.store(
        at, place, offset, epoch, laid.place, laid.offset, laid.stored, laid.borne_out
    )
    if most > 1:
        rows = np.flatnonzero(laid.stored[at] > 1)
        rows = rows[np.lexsort((place[rows], offset[rows], at[rows]))]
        at, place, offset, epoch = at[rows], place[rows], offset[rows], epoch[rows]
        _twice(laid, at, place, offset, summary)
        laid.more_copies = _further(at, place, offset, epoch)


def _further(at: Ints, place: Ints, offset: Ints, epoch: Ints) -> Sequence[Ints]:
    """The first copies in every place but that of the first of all. Rows are in order of (at, offset)."""
    if not ((at[1:] == at[:-1]) & (place[1:] != place[:-1])).any():
        return ()
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
    times, first_ns = settling.hand(
        at, place, offset, polled, laid.stored_place, laid.first_offset, laid.unsettled
    )
    laid.delivered.append(times)
    laid.polled_ns.append(first_ns)


def total(laid: Chunk, summary: Summary) -> None:
    """Adds the chunk's fates and latencies to the sums."""
    summary.unsettled += int(np.count_nonzero(laid.unsettled))
    count = len(laid.streams)
    cells, further, phantoms = settling.fates(laid.stream, count, laid.outcome, laid.stored)
    summary.extra_copies += further
    summary.phantom_records += phantoms
    for cell in np.flatnonzero(cells).tolist():
        topic, place = laid.streams[cell // 9]
        summary.cells[laid.producer, topic, place, cell // 3 % 3, cell % 3] += int(cells[cell])
    for group, (times, polled) in enumerate(zip(laid.delivered, laid.polled_ns, strict=True)):
        cells, took_us = settling.group_fates(
            laid.stream, count, laid.outcome, laid.stored, times, polled, laid.attempt_ns
        )
        for cell in np.flatnonzero(cells).tolist():
            topic, place = laid.streams[cell // 27]
            key = group, topic, place, cell // 9 % 3, cell // 3 % 3, cell % 3
            summary.group_cells[key] += int(cells[cell])
        summary.end_to_end[group].add_us(took_us)
