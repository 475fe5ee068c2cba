"""Determines which leader epoch overwrote an acknowledgement, and the cause that follows from it.

Implements the rules of docs/GLOSSARY.md for the acknowledgements of one partition at a time. Not here: which
messages they belong to, and what else is known about them (attribution.py, questions/losses.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kaput.analysis.facts.leader_history import Epoch
from kaput.analysis.runs.run import NULL, Flags, Ints
from kaput.scenario.vocabulary import CAUSES

ACKS_0, DEPOSED, RESTARTED, UNCLEAN, UNEXPLAINED = range(len(CAUSES))


class Acks(NamedTuple):
    """Acknowledgements of one partition that contradict the log, as columns; NULL for null.

    own: the earliest epoch that may have given them; done: when (ns); taken: their offset now holds a record;
    gap: it holds none, although the log continues after it.
    """

    own: Ints
    offset: Ints
    done: Ints
    taken: Flags
    gap: Flags


class Explanation(NamedTuple):
    """The cause of each acknowledgement's loss, as columns.

    epoch: index of the epoch that overwrote it, -1 for none; ack_epoch: the epoch that gave it, NULL if
    unknown (then the start of the later epoch is unknown, too). For the rest see Circumstances
    (verdict/facts.py).
    """

    epoch: Ints
    cause: Ints
    ack_epoch: Ints
    leaders_known: Flags
    either_leader: Flags
    maybe_unclean: Flags


def explain(epochs: Sequence[Epoch], acks: Acks) -> Explanation:
    """The cause for each acknowledgement. `epochs`: all known epochs of the partition, in order."""
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
    return Explanation(chosen, cause, np.where(by_time >= 0, NULL, ack_epoch), known, either, unclean)


def _leaders_of(epochs: Sequence[Epoch], numbers: Ints) -> Ints:
    """The leader of each of these epochs; NULL if unknown."""
    led = np.full(len(numbers), NULL, np.int64)
    for epoch in epochs:
        led[numbers == epoch.number] = NULL if epoch.led_last is None else epoch.led_last
    return led


def _by_start(epochs: Sequence[Epoch], acks: Acks, ack_epoch: Ints, old: Ints) -> Ints:
    """Index of the lowest later epoch that starts at or below the offset, preferring an unclean one.

    The start of an epoch without records is inferred from the next one's. If it has the same leader as
    before, epochs that certainly overwrote take precedence.
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
    the acknowledgement, else the last one before it (a deposed leader continues for a while), else likewise a
    new epoch of the same leader. An unclean election precedes all of these. -1 for none.
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
    found = candidates[0]
    for other in candidates[1:]:
        found = np.where(found >= 0, found, other)
    return found


def _reaches(epochs: Sequence[Epoch], acks: Acks) -> Flags:
    """Whether the offset may belong to one of these epochs, if later than its own."""
    found = np.zeros(len(acks.own), bool)
    for epoch in epochs:
        found |= (epoch.number > acks.own) & ((acks.offset == NULL) | (epoch.earliest <= acks.offset))
    return found


def _latest_begun_epoch(epochs: Sequence[Epoch], acks: Acks) -> Ints:
    """The highest epoch that may have begun by the time of the acknowledgement, at least `own`, which an
    earlier acknowledgement of the same producer proves.
    """
    begun = acks.own.copy()
    for epoch in epochs:
        if epoch.at_ns is not None:
            by_then = (acks.done != NULL) & (epoch.at_ns - epoch.within_ns <= acks.done)
            begun[by_then] = np.maximum(begun[by_then], epoch.number)
    return begun
