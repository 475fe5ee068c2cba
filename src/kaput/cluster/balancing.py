"""Balances load over brokers: chains of exchanges from the fullest to emptier ones.

Its place: placement.py balances replicas and leaders with it. Each chain is a shortest one, and when none is
left the load is as even as exchanges can make it (as for any flow with convex costs).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from typing import TypeVar

_T = TypeVar("_T")


def balance(
    load: MutableMapping[int, int],
    brokers: Sequence[int],
    exchanges: Callable[[int], Iterable[tuple[int, _T]]],
    exchange: Callable[[int, int, _T], None],
) -> None:
    """`exchanges`: the brokers that one can give to, and what; `exchange` does it. Updates `load`."""
    while chain := _chain(load, brokers, exchanges):
        for giver, taker, what in chain:
            exchange(giver, taker, what)
        load[chain[0][0]] -= 1
        load[chain[-1][1]] += 1


def _chain(
    load: MutableMapping[int, int],
    brokers: Sequence[int],
    exchanges: Callable[[int], Iterable[tuple[int, _T]]],
) -> list[tuple[int, int, _T]]:
    """Exchanges that move one from a broker to one with at least two less; empty if there are none."""
    if not brokers:
        return []
    least = min(load[broker] for broker in brokers)
    for source in sorted(brokers, key=lambda broker: (-load[broker], broker)):
        if load[source] < least + 2:
            return []
        found = _shortest(source, load[source] - 2, load, exchanges)
        if found:
            return found
    return []


def _shortest(
    source: int,
    enough: int,
    load: MutableMapping[int, int],
    exchanges: Callable[[int], Iterable[tuple[int, _T]]],
) -> list[tuple[int, int, _T]]:
    came: dict[int, tuple[int, _T]] = {}
    waiting = deque([source])
    while waiting:
        broker = waiting.popleft()
        for other, what in exchanges(broker):
            if other == source or other in came:
                continue
            came[other] = (broker, what)
            if load[other] <= enough:
                return _back(source, other, came)
            waiting.append(other)
    return []


def _back(source: int, end: int, came: dict[int, tuple[int, _T]]) -> list[tuple[int, int, _T]]:
    chain: list[tuple[int, int, _T]] = []
    while end != source:
        giver, what = came[end]
        chain.insert(0, (giver, end, what))
        end = giver
    return chain
