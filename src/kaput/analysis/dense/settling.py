"""One chunk's messages, settled row by row: where each is stored and was handed, and the sums of its streams.

Arrays have one place a message; `at` says at which of them a row belongs. A stream is a (topic, place).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kaput.analysis.dense.compiled import FLAGS, INT, INTS, OUT_FLAGS, OUT_INTS, compiled
from kaput.analysis.dense.context import ACKED
from kaput.analysis.dense.numbers import NULL, Ints
from kaput.analysis.dense.timing import whole_us

Flags = npt.NDArray[np.bool_]
_ACKED = ACKED  # a global of this module is a constant to the compiler


class Facts(NamedTuple):
    """What a chunk tells of a stream: whether its first and its last message is lost, and in how many islands
    the lost ones lie; how many stored ones are acknowledged, when the first was, the epoch of one of them,
    and whether another has another.
    """

    seen: int
    first_lost: int
    last_lost: int
    islands: int
    acks: int
    done_ns: int
    epoch: int
    epochs: int


class Offsets(NamedTuple):
    """First copies in the order of seq: how many, the least and greatest offset, the last one's, and whether
    one stands before an earlier one.
    """

    held: int
    low: int
    high: int
    before: int
    inverted: int


_SEEN, _FIRST_LOST, _LAST_LOST, _ISLANDS, _ACKS, _DONE, _EPOCH, _EPOCHS = range(8)
_HELD, _LOW, _HIGH, _BEFORE, _INVERTED = range(5)


@compiled(INTS, INTS, INT, INT)
def spread(at: Ints, values: Ints, size: int, nothing: int) -> Ints:
    """Values at their places, `nothing` elsewhere."""
    found = np.full(size, nothing, np.int64)
    for row in range(len(at)):
        found[at[row]] = values[row]
    return found


@compiled(INTS, INTS, INTS, INTS, INTS, INTS, OUT_INTS, OUT_FLAGS)
def store(
    at: Ints,
    place: Ints,
    offset: Ints,
    epoch: Ints,
    claimed_place: Ints,
    claimed_offset: Ints,
    stored: Ints,
    borne_out: Flags,
) -> tuple[Ints, Ints, Ints, int]:
    """Counts the log's records into `stored`, and which claims they bear out.

    (place, offset, epoch) of each message's first copy, that with the least offset, then place; NULL without
    one, or for an epoch that is none; and the most copies that one has.
    """
    size, most = len(stored), 0
    first_place, first_offset = np.full(size, NULL, np.int64), np.full(size, NULL, np.int64)
    first_epoch = np.full(size, NULL, np.int64)
    for row in range(len(at)):
        slot, where, there = at[row], place[row], offset[row]
        if claimed_offset[slot] == there and claimed_place[slot] == where:
            borne_out[slot] = True
        first = first_offset[slot]
        if stored[slot] == 0 or there < first or (there == first and where < first_place[slot]):
            first_place[slot], first_offset[slot] = where, there
            first_epoch[slot] = epoch[row] if epoch[row] >= 0 else NULL
        stored[slot] += 1
        most = max(most, stored[slot])
    return first_place, first_offset, first_epoch, most


@compiled(INTS, INTS, INTS, INTS, INTS, INTS, OUT_FLAGS)
def hand(
    at: Ints,
    place: Ints,
    offset: Ints,
    polled: Ints,
    first_place: Ints,
    first_offset: Ints,
    unsettled: Flags,
) -> tuple[Ints, Ints]:
    """How often a group was handed each message, and when first; marks those that it had from elsewhere."""
    size = len(first_place)
    times, first_ns = np.zeros(size, np.int64), np.full(size, NULL, np.int64)
    for row in range(len(at)):
        slot = at[row]
        if place[row] != first_place[slot] or offset[row] != first_offset[slot]:
            unsettled[slot] = True
        if times[slot] == 0 or polled[row] < first_ns[slot]:
            first_ns[slot] = polled[row]
        times[slot] += 1
    return times, first_ns


@compiled(INT, INT, INT)
def _cell(topic: int, place: int, size: int) -> int:
    mixed = (place ^ (topic << 40)) * 0x2545F4914F6CDD1D
    return (mixed ^ (mixed >> 29)) & (size - 1)


def streams(topic: Ints, place: Ints, ran: Flags) -> tuple[Ints, Ints]:
    """For each message the number of its stream, and a message of each; what did not run has the next number.

    Streams are numbered as they come.
    """
    room = 64
    while True:
        number, first, found = _numbered(topic, place, ran, room)
        if found >= 0:
            return number, first[:found].copy()
        room *= 16


@compiled(INTS, INTS, FLAGS, INT)
def _numbered(topic: Ints, place: Ints, ran: Flags, room: int) -> tuple[Ints, Ints, int]:
    """Numbers, a message of each, and how many there are: -1 for more than there is room for.

    They are found by hashing; mostly it is the stream of the message before.
    """
    number, first = np.empty(len(topic), np.int64), np.empty(room, np.int64)
    size = 4 * room
    table = np.full(size, -1, np.int64)
    found, last = 0, -1
    for slot in range(len(topic)):
        if not ran[slot]:
            number[slot] = -1
            continue
        if last < 0 or topic[first[last]] != topic[slot] or place[first[last]] != place[slot]:
            cell = _cell(topic[slot], place[slot], size)
            last = table[cell]
            while last >= 0 and (topic[first[last]] != topic[slot] or place[first[last]] != place[slot]):
                cell = (cell + 1) & (size - 1)
                last = table[cell]
            if last < 0:
                if found == room:
                    return number, first, -1
                last, table[cell], first[found] = found, found, slot
                found += 1
        number[slot] = last
    for slot in range(len(topic)):
        if number[slot] < 0:
            number[slot] = found
    return number, first, found


@compiled(INTS, INT, INTS, INTS)
def fates(stream: Ints, streams: int, outcome: Ints, stored: Ints) -> tuple[Ints, int, int]:
    """Messages by stream, outcome (3) and times stored (0, 1, more); further copies of them; records of what
    is in no stream.
    """
    cells, further, phantoms = np.zeros(9 * streams, np.int64), 0, 0
    for slot in range(len(stream)):
        copies = stored[slot]
        if stream[slot] == streams:
            phantoms += copies
            continue
        cells[9 * stream[slot] + 3 * outcome[slot] + min(copies, 2)] += 1
        further += max(copies - 1, 0)
    return cells, further, phantoms


@compiled(INTS, INT, INTS, INTS, INTS, INTS, INTS)
def group_fates(
    stream: Ints, streams: int, outcome: Ints, stored: Ints, times: Ints, polled: Ints, attempt: Ints
) -> tuple[Ints, Ints]:
    """As `fates`, by times delivered (0, 1, more) as well; and how long each delivered one took, in us."""
    cells, took, heard = np.zeros(27 * streams, np.int64), np.empty(len(stream), np.int64), 0
    for slot in range(len(stream)):
        if stream[slot] == streams:
            continue
        state = 9 * stream[slot] + 3 * outcome[slot] + min(stored[slot], 2)
        cells[3 * state + min(times[slot], 2)] += 1
        if times[slot] > 0:
            took[heard] = whole_us(polled[slot] - attempt[slot])
            heard += 1
    return cells, took[:heard]


@compiled(INTS, INT, INTS, INTS)
def offsets(number: Ints, numbers: int, stored: Ints, first_offset: Ints) -> Ints:
    """A row of Offsets for each number: those of the first copies of the messages that have it."""
    found = np.zeros((numbers, 5), np.int64)
    for slot in range(len(number)):
        if number[slot] == numbers or stored[slot] == 0:
            continue
        mine, offset = found[number[slot]], first_offset[slot]
        if mine[_HELD] == 0:
            mine[_LOW] = mine[_HIGH] = offset
        elif offset < mine[_BEFORE]:
            mine[_INVERTED] = 1
        mine[_LOW], mine[_HIGH] = min(mine[_LOW], offset), max(mine[_HIGH], offset)
        mine[_BEFORE] = offset
        mine[_HELD] += 1
    return found


@compiled(INTS, INT, INTS, INTS, INTS, INTS, INTS, INTS, FLAGS)
def facts(  # noqa: PLR0917  compiled functions take no names
    stream: Ints,
    streams: int,
    outcome: Ints,
    done: Ints,
    place: Ints,
    stored: Ints,
    first_place: Ints,
    epoch: Ints,
    lost: Flags,
) -> tuple[Ints, Ints, bool]:
    """A row of Facts a stream; for each lost message the number of its island; whether a first copy stands
    elsewhere than its message was sent.
    """
    found = np.zeros((streams, 8), np.int64)
    islands, elsewhere = np.zeros(len(stream), np.int64), False
    for slot in range(len(stream)):
        if stream[slot] == streams:
            continue
        mine = found[stream[slot]]
        if lost[slot]:
            if mine[_SEEN] == 0:
                mine[_FIRST_LOST] = 1
            if mine[_LAST_LOST] == 0:
                mine[_ISLANDS] += 1
            islands[slot] = mine[_ISLANDS] - 1
        mine[_LAST_LOST] = 1 if lost[slot] else 0
        mine[_SEEN] = 1
        if stored[slot] == 0:
            continue
        elsewhere = elsewhere or first_place[slot] != place[slot]
        if outcome[slot] != _ACKED or epoch[slot] == NULL or done[slot] == NULL:
            continue
        if mine[_ACKS] == 0:
            mine[_EPOCH], mine[_DONE] = epoch[slot], done[slot]
        elif epoch[slot] != mine[_EPOCH]:
            mine[_EPOCHS] = 1
        mine[_DONE] = min(mine[_DONE], done[slot])
        mine[_ACKS] += 1
    return found, islands, elsewhere
