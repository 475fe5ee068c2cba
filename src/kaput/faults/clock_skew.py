"""clock-skew: the wall clock of the process is `offset` ahead, or behind where that is negative (-5m), as
after a wrong step of NTP; monotonic clocks go on as they are.

It needs `cluster.faketime: true`.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import ClassVar

from kaput.cluster import faketime
from kaput.cluster.node import Node, last_date_ns
from kaput.faults.fault import Effect, NodeFault, now_ns
from kaput.scenario.fault_kinds import ClockSkewOptions

_CONNECT_S = 1.0
_SHIFTED_S = 8.0  # the longest until the shift shows
_NEAR_S = 1.5  # tolerance, for the time between the node's log line and reading it
_OVERSIZED_REQUEST = b"\x7f\xff\xff\xff"  # the length of a 2 GB request, which the node refuses and logs


def ahead_s(node: Node) -> float | None:
    """How far a node's clock is ahead, in seconds: the date of a line that it logs on an oversized request.
    None if it logs nothing.
    """
    layout = node.layout
    size = node.log.stat().st_size
    port = layout.broker_port or layout.controller_port
    if port is None:
        return None
    with suppress(OSError), socket.create_connection((layout.host, port), _CONNECT_S) as connection:
        connection.settimeout(_CONNECT_S)
        connection.sendall(_OVERSIZED_REQUEST)
        connection.recv(1)  # it closes the connection after logging
    date_ns = last_date_ns(node.log, size)
    return None if date_ns is None else (date_ns - now_ns()) / 1e9


class ClockSkew(NodeFault):
    """Proof: the dates in the node's own log, in lines that it writes because of a request that is too large:
    true before the injection, shifted by the offset until the heal, true after it.
    """

    name = "clock-skew"
    options: ClockSkewOptions
    ahead: ClassVar[Callable[[Node], float | None]] = ahead_s
    shift: ClassVar[Callable[[Node, int], None]] = lambda node, ms: faketime.shift(node.layout, ms)

    _shifted: Sequence[Node] = ()

    def inject_into(self, alive: Sequence[Node], nodes: Sequence[Node]) -> Effect:
        offset_ms = self.options.offset
        clocks = [(node, self._await(node, 0)) for node in alive]
        self._shifted = [node for node, ahead in clocks if ahead is not None and abs(ahead) < _NEAR_S]
        details = [f"{node.title}: {_text(ahead)} before" for node, ahead in clocks]
        for node in self._shifted:
            type(self).shift(node, offset_ms)
        shifted = [self._await(node, offset_ms) for node in self._shifted]
        details += [f"{n.title}: {_text(ahead)}" for n, ahead in zip(self._shifted, shifted, strict=True)]
        confirmed = len(self._shifted) == len(nodes) and all(_is_near(each, offset_ms) for each in shifted)
        return Effect(now_ns() if confirmed else None, confirmed, "; ".join(details))

    def heal(self, nodes: Sequence[Node], effect: Effect) -> tuple[int | None, Effect]:
        offset_ms = self.options.offset
        running = [node for node in self._shifted if node.running]
        held = [self._await(node, offset_ms) for node in running] if effect.confirmed else []
        for node in self._shifted:
            type(self).shift(node, 0)
        after = [self._await(node, 0) for node in running]
        over = all(_is_near(each, 0) for each in after)
        healed = now_ns() if over else None
        if effect.effective_ns is None:
            return healed, effect
        details = [
            f"{node.title}: {_text(before)} until the heal, {_text(now)} after it"
            for node, before, now in zip(running, held, after, strict=True)
        ]
        details += [f"{node.title} had ended by then" for node in self._shifted if node not in running]
        holds = over and all(_is_near(each, offset_ms) for each in held)
        return healed, effect.with_proof("; ".join(details), holds)

    def _await(self, node: Node, offset_ms: int) -> float | None:
        """Waits, for a bounded time, until the node is ahead by the offset; returns how far it is ahead. On a
        busy machine a line may be read seconds after it was dated, and the next one at once.
        """
        clock = self.scene.clock
        limit = clock.now() + _SHIFTED_S
        while not _is_near(ahead := type(self).ahead(node), offset_ms) and clock.now() < limit:
            clock.sleep(0.2)
        return ahead


def _is_near(ahead: float | None, offset_ms: int) -> bool:
    return ahead is not None and abs(ahead - offset_ms / 1000) < _NEAR_S


def _text(ahead: float | None) -> str:
    if ahead is None:
        return "nothing was logged"
    return f"its log was dated {abs(ahead):.1f} s {'ahead' if ahead >= 0 else 'behind'}"
