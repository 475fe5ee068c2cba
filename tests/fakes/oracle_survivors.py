"""Who still has an acknowledged message, in plain Python: docs/decisions/0032, one message at a time.

Every order of events that the clocks allow is played; where they end differently, the answer is None.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

Row = dict[str, Any]
MS = 1_000_000


def all_lost(
    events: list[Row], faults: list[Row], attempt_ns: int, done_ns: int, epoch_ns: int | None
) -> bool | None:
    """Whether every replica of the ISR that acknowledged lost the message; None where it cannot be known.

    `events`: leader and isr events of the partition, in order; `epoch_ns`: when the overwriting epoch began.
    """
    losses = [
        (broker, f["effective_ns"], f["healed_ns"])
        for f in faults
        if f["fault"] in ("power-loss", "disk-loss") and f["bit"] and f["effective_ns"] is not None
        for broker in f["brokers"]
    ]
    losses = [one for one in losses if not was_back(events, one[0], one[1], attempt_ns, done_ns)]
    ends = [
        _played(events, [_until_seen_again(one, events, lagged) for one in losses], acked_ns, epoch_ns, first)
        for lagged in (False, True)
        for acked_ns in _moments(events, attempt_ns, done_ns)
        for first in (True, False)
    ]
    if len(set(ends)) > 1 or (epoch_ns is None and ends[0]):
        return None
    return ends[0]


def was_back(events: list[Row], broker: int, failed_ns: int, attempt_ns: int, done_ns: int) -> bool:
    """A broker that was elected after its power failed, and leads while it is sent a message, is back."""
    elected = [
        e
        for e in events
        if (e["kind"], e["leader"]) == ("leader", broker)
        and failed_ns // MS < e["at_ns"] // MS <= attempt_ns // MS
    ]
    return bool(elected) and {_leader(events, attempt_ns), _leader(events, done_ns)} == {broker}


def _leader(events: list[Row], at_ns: int) -> int | None:
    by_then = [e["leader"] for e in events if e["at_ns"] // MS <= at_ns // MS and (e["leader"] or -1) >= 0]
    return by_then[-1] if by_then else None


def _until_seen_again(
    loss: tuple[int, int, int | None], events: list[Row], lagged: bool
) -> tuple[int, int, int | None]:
    """Who left the ISR after its power failed and joined it is up, whatever the fault's heal says. `lagged`:
    so is who joined it then and had left before.
    """
    broker, start, end = loss
    sets = [(e["at_ns"], e["isr"]) for e in events if e["isr"] is not None]
    for (before_ns, before), (at_ns, after) in pairwise(sets):
        joined = broker in after and broker not in before and at_ns // MS > start // MS
        if joined and (lagged or before_ns // MS > start // MS):
            return broker, start, at_ns - 1 if end is None else min(end, at_ns - 1)
    return loss


def _moments(events: list[Row], attempt_ns: int, done_ns: int) -> Iterator[int]:
    yield from (attempt_ns, done_ns)
    yield from (e["at_ns"] for e in events if attempt_ns < e["at_ns"] < done_ns)


def _played(
    events: list[Row],
    losses: list[tuple[int, int, int | None]],
    acked_ns: int,
    epoch_ns: int | None,
    joins_first: bool,
) -> bool | None:
    last_ms = None if epoch_ns is None else epoch_ns // MS
    mine = [
        (broker, effective, healed)
        for broker, effective, healed in losses
        if (last_ms is None or effective // MS <= last_ms) and (healed is None or acked_ns <= healed)
    ]
    if not mine:
        return False
    isr, leader = None, None
    for e in events:
        if e["at_ns"] // MS <= acked_ns // MS:
            isr = isr if e["isr"] is None else set(e["isr"])
            leader = e["leader"] if e["leader"] is not None and e["leader"] >= 0 else leader
    if isr is None:
        return None
    having = set(isr) - {broker for broker, effective, _ in mine if effective <= acked_ns}
    turns: list[tuple[int, int, Any]] = [
        (e["at_ns"] // MS, 0 if joins_first else 1, e) for e in events if e["at_ns"] // MS > acked_ns // MS
    ]
    turns += [(o[1] // MS, 1 if joins_first else 0, o) for o in mine if o[1] > acked_ns]
    for ms, _, turn in sorted(turns, key=lambda t: t[:2]):
        if not having:
            return True
        if last_ms is not None and ms > last_ms:
            break
        if isinstance(turn, tuple):
            having.discard(turn[0])
            continue
        leader = turn["leader"] if turn["leader"] is not None and turn["leader"] >= 0 else leader
        if turn["isr"] is None:
            continue
        for broker in set(turn["isr"]) - isr:
            is_down = any(
                b == broker and start <= turn["at_ns"] and (end is None or turn["at_ns"] < end)
                for b, start, end in losses
            )
            if leader in having and not is_down:
                having.add(broker)
        isr = set(turn["isr"])
    return not having
