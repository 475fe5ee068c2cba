"""delay: everything that the target sends is late, by `delay` give or take `jitter`, as on a long line.

How is lines.py's matter; here it is measured.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

from kaput.cluster.node import Node
from kaput.cluster.requests import describe_quorum, metadata
from kaput.cluster.wire import Unanswered, ask
from kaput.errors import LabError
from kaput.faults import probes
from kaput.faults.fault import Effect, Fault, Scene, name_all, now_ns
from kaput.faults.lines import Line, line_for
from kaput.faults.peers import CLIENTS, named
from kaput.faults.rules import Table
from kaput.faults.together import together

_ROUNDS = 5
_ANSWER_S = 3.0  # beside the delay itself


class Delay(Fault):
    """Proof: the time that the node takes to answer, measured before, during and after."""

    name = "delay"
    needs = ("nat", "destroy")

    def inject(self, nodes: Sequence[Node]) -> Effect:
        self._lines: list[Line] = []
        alive = [node for node in nodes if node.running]
        if not alive:
            return Effect(None, False, "no target was running")
        options = self.scene.options
        parties = {node.id: named(options.from_, self.scene) - {node.id} for node in nodes}
        if not all(parties.values()):
            return Effect(None, False, f"{name_all(nodes)}: there is nobody else to be late for")
        self._asked = {(min(p), node) for node, p in parties.items()}
        before = self._measure()
        everybody = "everybody" in options.from_
        try:
            self._lines = together(
                lambda node: line_for(self.scene, node.id, parties[node.id], everybody), nodes
            )
            together(lambda line: line.begin(), self._lines)
        except LabError:
            together(lambda line: line.end(), self._lines)
            raise
        effective = now_ns()
        during = self._measure()
        floor = 0.8 * (options.delay - options.jitter)
        late = [node for node in during if during[node] - before.get(node, during[node]) >= floor]
        bit = len(late) == len(nodes) == len(alive)
        said = (
            f"{name_all(alive)}: what it sends is {options.delay} ms late, give or take {options.jitter} ms"
        )
        said += f", by {'; '.join(sorted({line.means for line in self._lines}))}"
        return Effect(
            effective, bit, f"{said}; an answer took {_said(before)} before and takes {_said(during)}"
        )

    def heal(self, nodes: Sequence[Node], effect: Effect) -> tuple[int, Effect]:
        if effect.effective_ns is None:
            return now_ns(), effect
        together(lambda line: line.end(), self._lines)
        healed = now_ns()
        # While another step makes the node late as well, an answer says nothing about us.
        alone = {node.id for node in nodes if node.running and Table(self.scene, node.id).alone()}
        if not alone:
            return healed, effect
        after = {node: ms for node, ms in self._measure().items() if node in alone}
        options = self.scene.options
        still = [node for node, ms in after.items() if ms >= max(1.0, options.delay - options.jitter)]
        bit = effect.bit and not still
        return healed, Effect(effect.effective_ns, bit, f"{effect.proof}, and {_said(after)} after the heal")

    def _measure(self) -> dict[int, float]:
        """By node, the median time of an answer in ms; without those that gave none."""
        found = together(lambda path: (path[1], _answer_ms(path, self.scene)), sorted(self._asked))
        return {node: ms for node, ms in found if ms is not None}


def _answer_ms(path: probes.Path, scene: Scene) -> float | None:
    """The median over a few connections, from the request to its answer; None where there is none."""
    party, node = path
    place = scene.nodes[node].place
    took = []
    for _ in range(_ROUNDS):
        connection = scene.network.socket(None if party == CLIENTS else party)
        limit_s = _ANSWER_S + 2 * scene.options.delay / 1000
        try:
            connection.settimeout(limit_s)
            connection.connect(probes.endpoint(node, scene))
            began = time.monotonic()
            if place.role == "zookeeper":
                connection.sendall(b"ruok")
                connection.recv(4)
            else:
                request = metadata() if place.broker_port is not None else describe_quorum()
                ask(probes.endpoint(node, scene), request, limit_s, connection)
            took.append((time.monotonic() - began) * 1000)
        except (OSError, Unanswered):
            connection.close()
    return statistics.median(took) if took else None


def _said(times: dict[int, float]) -> str:
    return ", ".join(f"{ms:.0f} ms" for _, ms in sorted(times.items())) or "nobody answered"
