"""Evens out what brokers have: chains of exchanges from the fullest to those with less, while there are any.

Its place: placement.py counts replicas and leaders with it. Each chain is a shortest one, and where
none is left the load is as even as exchanges can make it (as for any flow with convex costs).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from typing import TypeVar

_T = TypeVar("_T")


def even_out(
    load: MutableMapping[int, int],
    brokers: Sequence[int],
    exchanges: Callable[[int], Iterable[tuple[int, _T]]],
    exchange: Callable[[int, int, _T], None],
) -> None:
    """`exchanges`: to which brokers one can give something, and what; `exchange` does it. `load` is kept."""
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
    """Exchanges that take one from a broker and give it to one with two less; empty where there are none."""
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
