"""Counting sends: latencies, silences and rates as they stand, and each chunk's rows packed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kaput.analysis.dense import timing
from kaput.analysis.dense.columns import Columns
from kaput.analysis.dense.context import ACKED, OUTCOME, Context
from kaput.analysis.dense.numbers import NULL, Ints
from kaput.analysis.dense.pack import pack
from kaput.analysis.dense.split import apart, by_key
from kaput.analysis.dense.streams import stretch
from kaput.analysis.dense.summary import RATES, Quiet, Summary, greatest, least

COLUMNS = (
    "producer",
    "seq",
    "topic",
    "partition",
    "attempt_ns",
    "done_ns",
    "outcome",
    "offset",
    "error",
)
TEXTS = ("topic", "outcome", "error")
SOURCE = -2  # of blobs of sends
PACKED = 8
EDGE_TIMES = 1024  # times kept at either end of a stretch
_ALL_EDGE_TIMES = 65_536  # fewer, where this were exceeded over all streams of a unit
_AROUND = 4096
Flags = npt.NDArray[np.bool_]


class Blob(NamedTuple):
    """Packed rows of one chunk. `source`: of sends, of the log, or a group's number. `words`: errors."""

    part: int
    source: int
    producer: int
    chunk: int
    payload: bytes
    words: Sequence[str]


Told = list[Ints]  # of some messages of one chunk: rel, topic, place, outcome, attempt, done, offset, error


def count(columns: Columns, context: Context, summary: Summary) -> Iterator[Blob]:
    """Sums into `summary`, and the blobs of the rows."""
    for who, chunk, told, words in by_chunk(columns, context, summary):
        yield Blob(context.part(who, chunk), SOURCE, who, chunk, _packed(told), words)


def by_chunk(
    columns: Columns, context: Context, summary: Summary
) -> Iterator[tuple[int, int, Told, Sequence[str]]]:
    """Sums into `summary`, and (producer, chunk, rows, the words of their errors)."""
    producer, seq = columns.numbers("producer"), columns.numbers("seq")
    topic = columns.codes("topic", context.topics)
    place = context.places(columns, topic)
    outcome = np.ascontiguousarray(columns.codes("outcome", OUTCOME))
    attempt, done = (np.ascontiguousarray(columns.numbers(name)) for name in ("attempt_ns", "done_ns"))
    offset = columns.numbers("offset")
    error, words = columns.texts("error")
    resolved = _times(summary, outcome, attempt, done)
    _streams(summary, (producer, place), outcome, attempt, resolved, done != NULL)
    _around_faults(summary, context, place, np.where(outcome == ACKED, done, NULL))
    chunks, rel = context.chunks(seq)
    told = rel, topic, place, outcome, attempt, done, offset, error
    for (who, chunk), rows in by_key(producer, chunks):
        yield who, chunk, [column[rows] for column in told], words


def _packed(told: Told) -> bytes:
    rel, topic, spots, outcome, attempt, done, offsets, error = told
    known = done != NULL
    lasting = done - attempt if known.all() else np.where(known, done - attempt, -1)
    (place, placed), (offset, stated) = _filled(spots), _filled(offsets)
    state = outcome * 8 + placed * 4 + known * 2 + stated
    return pack((rel, topic, place, state, attempt, lasting, offset, error))


def _filled(values: Ints) -> tuple[Ints, Ints]:
    """The values with the least one for every null, so that nulls do not widen them; and which are none."""
    known = values != NULL
    if known.all():
        return values, known.astype(np.int64)
    floor = int(values[known].min()) if known.any() else 0
    return np.where(known, values, floor), known.astype(np.int64)


def unpacked(columns: list[Ints]) -> Told:
    """What a payload's columns tell."""
    rel, topic, place, state, attempt, lasting, offset, error = columns
    done = attempt + lasting
    flags = int(np.bitwise_and.reduce(state)) if len(state) else 7
    for flag, column in ((4, place), (2, done), (1, offset)):
        if not flags & flag:
            column[(state & flag) == 0] = NULL
    return [rel, topic, place, state >> 3, attempt, done, offset, error]


def _times(summary: Summary, outcome: Ints, attempt: Ints, done: Ints) -> Ints:
    """When each attempt was over: where that is not known, when it was made."""
    resolved: Ints = np.empty(len(attempt), np.int64)
    if len(attempt) == 0:
        return resolved
    summary.first_attempt_ns = least(summary.first_attempt_ns, int(attempt.min()))
    summary.last_attempt_ns = greatest(summary.last_attempt_ns, int(attempt.max()))
    took_us, last = timing.acked_after(outcome, attempt, done, resolved)
    if len(took_us):
        summary.last_ack_ns = greatest(summary.last_ack_ns, last)
        summary.ack.add_us(took_us)
    timing.rate(summary, attempt, np.zeros(len(attempt), np.int64), RATES.index("attempted"))
    timing.rate(summary, resolved, outcome, RATES.index("acked"))
    return resolved


def _streams(
    summary: Summary, keys: tuple[Ints, Ints], outcome: Ints, attempt: Ints, resolved: Ints, known: Flags
) -> None:
    columns = attempt, resolved, (outcome == ACKED) & known
    found = list(apart(columns, *keys, once=True))
    ends = max(16, min(EDGE_TIMES, _ALL_EDGE_TIMES // max(1, len(found))))
    for (producer, place), (tried, over, acked) in found:
        if place == NULL:
            continue
        summary.places.add(place)
        first, last = int(tried.min()), max(int(tried.max()), int(over.max()))
        mine = summary.active.get((producer, place), (first, last))
        summary.active[producer, place] = min(mine[0], first), max(mine[1], last)
        times = over if acked.all() else over[acked]
        if len(times):
            summary.acks[producer, place].append(stretch(times, ends))


def _around_faults(summary: Summary, context: Context, place: Ints, acked: Ints) -> None:
    """Acknowledgements around each fault in the places it reached."""
    for number, reached in enumerate(context.reached):
        times = acked[(place == reached.place) & (acked != NULL)]
        before = times <= reached.effective_ns
        after = times >= reached.recovered_ns
        within = times[~before & ~after]
        first = int(times[after & ~before].min()) if (after & ~before).any() else None
        kept = [stretch(within, _AROUND)] if len(within) else []
        summary.quieten(number, Quiet(kept, bool(before.any()), first))
