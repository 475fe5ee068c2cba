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
    """Exchanges until `load` is even, and updates it.

    `exchanges`: for a broker, the brokers that it can give to, each with what it can give. `exchange(giver,
    taker, what)` makes one exchange.
    """
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
    """(giver, taker, what) of exchanges that move one unit of load to a broker with at least two less.

    Empty if there are none.
    """
    if not brokers:
        return []
    least = min(load[broker] for broker in brokers)
    for source in sorted(brokers, key=lambda broker: (-load[broker], broker)):
        if load[source] < least + 2:
            return []
        found = _shortest_chain(source, load[source] - 2, load, exchanges)
        if found:
            return found
    return []


def _shortest_chain(
    source: int,
    load_max: int,
    load: MutableMapping[int, int],
    exchanges: Callable[[int], Iterable[tuple[int, _T]]],
) -> list[tuple[int, int, _T]]:
    reached_from: dict[int, tuple[int, _T]] = {}
    waiting = deque([source])
    while waiting:
        broker = waiting.popleft()
        for other, what in exchanges(broker):
            if other == source or other in reached_from:
                continue
            reached_from[other] = (broker, what)
            if load[other] <= load_max:
                return _trace_back(source, other, reached_from)
            waiting.append(other)
    return []


def _trace_back(source: int, end: int, reached_from: dict[int, tuple[int, _T]]) -> list[tuple[int, int, _T]]:
    chain: list[tuple[int, int, _T]] = []
    while end != source:
        giver, what = reached_from[end]
        chain.insert(0, (giver, end, what))
        end = giver
    return chain
