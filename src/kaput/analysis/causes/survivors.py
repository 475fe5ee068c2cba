"""Tracks which replicas have an acknowledged message, and whether at some time none had it.

A message is safe as long as one replica of the ISR that acknowledged it has it. A power loss takes what a
broker had not synced, a disk loss everything. A broker that rejoins the ISR has fetched everything again from
its leader, even if the heal of its fault was confirmed later. Rules: docs/decisions/0032 and 0042. Not here:
which epoch overwrote the message (attribution.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from kaput.analysis.facts.leader_history import Change, LeaderHistory, PowerCut
from kaput.analysis.runs.run import NULL, Flags, Ints
from kaput.core import FOREVER_NS, MS, TopicPartition


class Acknowledged(NamedTuple):
    """An acknowledgement: given between attempt_ns and done_ns. until_ns: the overwriting epoch's begin."""

    attempt_ns: int
    done_ns: int
    until_ns: int | None


_FLAGS = ("unsynced", "isr_unsynced", "isr_unsure", "disk_lost", "isr_disk_lost")


def unsynced(history: LeaderHistory, place: TopicPartition, acks: Ints) -> dict[str, Flags]:
    """Whether each message was lost because it was not synced, or its disk was lost: the fields of
    Circumstances that are named here. `acks`: a column per acknowledgement: attempt (ns), done (ns), index of
    the overwriting epoch (-1: none), and whether the same leader came back.
    """
    flags = {name: np.zeros(acks.shape[1], bool) for name in _FLAGS}
    changes, epochs = history.changes.get(place, ()), history.epochs[place]
    power_losses = history.power_losses
    if not power_losses:
        return flags
    disks = [one for one in power_losses if one.disk]
    # Acknowledgements between the same two events share an answer.
    edges = sorted(
        {c.at_ns // MS * MS for c in changes}
        | {t for o in power_losses for t in (o.effective_ns, min(o.healed_ns, FOREVER_NS - 1) + 1)}
        | {(o.effective_ns // MS + 1) * MS for o in power_losses}
    )
    alike = acks.copy()
    alike[:2] = np.searchsorted(edges, acks[:2], side="right")
    _, first, which = np.unique(alike, axis=1, return_index=True, return_inverse=True)
    for number, column in enumerate(first.tolist()):
        attempt, done, chosen, same_leader = acks[:, column].tolist()
        if chosen < 0:
            continue
        epoch = epochs[chosen]
        first_ns, last_ns = (done if attempt == NULL else attempt), (attempt if done == NULL else done)
        acked = Acknowledged(first_ns, last_ns, epoch.at_ns)
        here = which.reshape(-1) == number
        sure, unsure = lost_by_all(changes, power_losses, acked)
        if done == NULL:
            sure, unsure = False, sure or unsure
        flags["isr_unsynced"][here], flags["isr_unsure"][here] = sure, unsure
        flags["isr_disk_lost"][here] = any(lost_by_all(changes, disks, acked))
        if same_leader and epoch.leader is not None:
            flags["unsynced"][here] = lost_by_leader(changes, power_losses, acked, epoch.leader)
        if epoch.changed is False and epoch.leader is not None:
            flags["disk_lost"][here] = lost_by_leader(changes, disks, acked, epoch.leader)
    return flags


def maybe_unsynced(
    history: LeaderHistory, place: TopicPartition, attempts: Ints, dones: Ints
) -> dict[str, Flags]:
    """The same for acknowledgements without an offset; assumes that the last epoch overwrote them."""
    last = np.full(len(dones), len(history.epochs[place]) - 1)
    flags = unsynced(history, place, np.stack([attempts, dones, last, np.ones_like(last)]))
    disk_lost = {name: flags[name] for name in ("unsynced", "disk_lost", "isr_disk_lost")}
    return {**disk_lost, "isr_unsure": flags["isr_unsynced"] | flags["isr_unsure"]}


def lost_by_all(
    changes: Sequence[Change], power_losses: Sequence[PowerCut], acked: Acknowledged
) -> tuple[bool, bool]:
    """Whether every member of the ISR lost the message, and whether the evidence leaves that open. It is open
    if another order of simultaneous events would change the answer, if a broker may have been back before its
    heal was confirmed, or if the ISR or the time of the overwriting epoch is not recorded.
    """
    if not power_losses:
        return False, False
    until_ns = FOREVER_NS if acked.until_ns is None else acked.until_ns
    acking = [power_loss for power_loss in power_losses if not _was_back(power_loss, changes, acked)]
    certain, possible = ([_until_back(o, changes, maybe) for o in acking] for maybe in (False, True))
    answers = {
        _none_left(changes, ended, at_ns, until_ns, joins_first)
        for ended in (certain, possible)
        for at_ns in _moments(changes, acked)
        for joins_first in (True, False)
    }
    sure = _none_left(changes, certain, acked.done_ns, until_ns, True)
    return bool(sure) and acked.until_ns is not None, None in answers or len(answers) > 1 or (
        bool(sure) and acked.until_ns is None
    )


def lost_by_leader(
    changes: Sequence[Change], power_losses: Sequence[PowerCut], acked: Acknowledged, leader: int
) -> bool:
    """Whether a power loss of the leader itself may have taken the message."""
    until_ns = acked.until_ns
    return until_ns is not None and any(
        power_loss.broker == leader
        and _affects(power_loss, acked.done_ns, until_ns)
        and not _was_back(power_loss, changes, acked)
        for power_loss in power_losses
    )


def _was_back(power_loss: PowerCut, changes: Sequence[Change], acked: Acknowledged) -> bool:
    """Whether the broker was re-elected after its power loss and led when the message was attempted and
    acknowledged: then it was back, even if its heal was confirmed later.
    """
    elected = any(
        c.kind == "leader"
        and c.leader == power_loss.broker
        and power_loss.effective_ns // MS < c.at_ns // MS <= acked.attempt_ns // MS
        for c in changes
    )
    led = {_leader_at(changes, acked.attempt_ns), _leader_at(changes, acked.done_ns)}
    return elected and led == {power_loss.broker}


def _until_back(power_loss: PowerCut, changes: Sequence[Change], maybe: bool) -> PowerCut:
    """The power loss, ended early when the broker rejoined the ISR after leaving it. `maybe`: also if it was
    out of the ISR before the power loss; a leader that had not noticed the power loss may have let it in.
    """
    out, isr = maybe, None
    for change in changes:
        if change.isr is None:
            continue
        if change.at_ns // MS > power_loss.effective_ns // MS:
            if power_loss.broker not in change.isr:
                out = True
            elif out and isr is not None and power_loss.broker not in isr:
                return replace(power_loss, healed_ns=min(power_loss.healed_ns, change.at_ns - 1))
        isr = change.isr
    return power_loss


def _moments(changes: Sequence[Change], acked: Acknowledged) -> Iterator[int]:
    """Times (ns) at which the acknowledgement may have been given: one per ISR in that interval."""
    yield acked.attempt_ns
    yield acked.done_ns
    for change in changes:
        if acked.attempt_ns < change.at_ns < acked.done_ns:
            yield change.at_ns


def _none_left(
    changes: Sequence[Change], power_losses: Sequence[PowerCut], at_ns: int, until_ns: int, joins_first: bool
) -> bool | None:
    """Whether no replica kept what the ISR at `at_ns` acknowledged; None if that ISR is unknown."""
    if not any(_affects(power_loss, at_ns, until_ns) for power_loss in power_losses):
        return False
    isr = _isr_at(changes, at_ns)
    if isr is None:
        return None
    return _none_left_of(set(isr), changes, power_losses, (at_ns, until_ns), joins_first)


def _affects(power_loss: PowerCut, at_ns: int, until_ns: int) -> bool:
    return power_loss.effective_ns // MS <= until_ns // MS and at_ns <= power_loss.healed_ns


def _isr_at(changes: Sequence[Change], at_ns: int) -> Collection[int] | None:
    known = [c.isr for c in changes if c.isr is not None and c.at_ns // MS <= at_ns // MS]
    return known[-1] if known else None


def _none_left_of(
    holders: set[int],
    changes: Sequence[Change],
    power_losses: Sequence[PowerCut],
    between: tuple[int, int],
    joins_first: bool,
) -> bool:
    """Whether at some time in `between` (ns) no broker has the message. `holders`: who had it at first."""
    at_ns, until_ns = between
    # A broker in the ISR during its own power loss had lost power already: it does not have the message.
    holders -= {o.broker for o in power_losses if o.effective_ns <= at_ns <= o.healed_ns}
    isr, leader = set(_isr_at(changes, at_ns) or ()), _leader_at(changes, at_ns)
    for event in _events_between(changes, power_losses, at_ns, until_ns, joins_first):
        if not holders:
            break
        if isinstance(event, PowerCut):
            holders.discard(event.broker)
            continue
        leader = event.leader if event.leader is not None and event.leader >= 0 else leader
        if event.isr is None:
            continue
        if leader in holders:
            holders |= {b for b in set(event.isr) - isr if not _down(power_losses, b, event.at_ns)}
        isr = set(event.isr)
    return not holders


def _events_between(
    changes: Sequence[Change], power_losses: Sequence[PowerCut], at_ns: int, until_ns: int, joins_first: bool
) -> list[Change | PowerCut]:
    """The events between two times, in the order of whole ms, the resolution of the cluster's records.
    `joins_first`: of events in the same ms, changes come before power losses.
    """
    lost: list[tuple[int, bool, Change | PowerCut]] = [
        (o.effective_ns // MS, joins_first, o) for o in power_losses if o.effective_ns > at_ns
    ]
    change_events = [(c.at_ns // MS, not joins_first, c) for c in changes if c.at_ns // MS > at_ns // MS]
    every = sorted([*lost, *change_events], key=lambda turn: turn[:2])
    return [event for ms, _, event in every if ms <= until_ns // MS]


def _leader_at(changes: Sequence[Change], at_ns: int) -> int | None:
    led = [
        c.leader for c in changes if c.at_ns // MS <= at_ns // MS and c.leader is not None and c.leader >= 0
    ]
    return led[-1] if led else None


def _down(power_losses: Sequence[PowerCut], broker: int, at_ns: int) -> bool:
    return any(o.broker == broker and o.effective_ns <= at_ns < o.healed_ns for o in power_losses)
