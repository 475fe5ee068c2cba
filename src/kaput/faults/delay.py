"""delay: everything the target sends is late by `delay` plus or minus `jitter`, as on a long link.

delayed_links.py delays; here the delay is measured.
"""

from __future__ import annotations

import statistics
from collections.abc import Collection, Sequence

from kaput.cluster.access import OPEN
from kaput.cluster.admin.requests import describe_quorum, metadata
from kaput.cluster.node import Node
from kaput.cluster.wire import Unanswered, ask
from kaput.faults import probes
from kaput.faults.delayed_links import DelayedLink, delayed_link
from kaput.faults.fault import Effect, NodeFault, Scene, in_parallel, name_all, now_ns
from kaput.faults.rules import CLIENTS, StepRules, across
from kaput.scenario.fault_kinds import DelayOptions

_ANSWER_S = 3.0  # in addition to the delay
_ROUNDS, _ROUNDS_UNEVEN = 5, 11


def least_ms(delay_ms: float, jitter_ms: float) -> float:
    """The minimum increase in response time that counts as late; more than 0 whatever the jitter. For the
    median of answers that are each late by delay - jitter to delay + jitter.
    """
    return max(0.8 * (delay_ms - jitter_ms), 0.25 * delay_ms)


def rounds(delay_ms: float, jitter_ms: float) -> int:
    """How many answers are measured: more if a single one may be early. With a jitter as large as the delay,
    the median of 11 is early once in 1,000 times, that of 5 once in 60.
    """
    return _ROUNDS_UNEVEN if delay_ms - jitter_ms < 0.25 * delay_ms else _ROUNDS


class Delay(NodeFault):
    """Proof: the node's response time, measured before, during and after."""

    name = "delay"
    needs = ("nat", "destroy")
    options: DelayOptions

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._lines: dict[int, DelayedLink] = {}
        self._asked: dict[int, int] = {}  # by node, the party that measures
        self._before: dict[int, float] = {}

    def inject_into(self, alive: Sequence[Node], nodes: Sequence[Node]) -> Effect:
        options = self.options
        parties = {node.id: across(node.id, options.from_, self.scene) for node in nodes}
        if not all(parties.values()):
            return Effect(None, False, f"{name_all(nodes)}: there is no other node to delay traffic to")
        self._asked = {node: min(of) for node, of in parties.items()}
        self._before = self._measure(self._asked)
        everybody = "everybody" in options.from_
        self._lines = {node: delayed_link(self.scene, node, of, everybody) for node, of in parties.items()}
        in_parallel(lambda line: line.begin(), list(self._lines.values()))
        effective = now_ns()
        during = self._measure(self._asked)
        to = "" if everybody else f" to {', '.join(options.from_)}"
        details = (
            f"{name_all(alive)}: outgoing traffic{to} delayed by {options.delay} ms ± {options.jitter} ms"
        )
        details += f", by {'; '.join(sorted({line.means for line in self._lines.values()}))}"
        details += f"; response time {_durations(self._before)} before and {_durations(during)} now"
        confirmed = all(self._late(node, during) for node in parties) and len(alive) == len(nodes)
        return Effect(effective, confirmed, details)

    def heal(self, nodes: Sequence[Node], effect: Effect) -> tuple[int | None, Effect]:
        if not self._lines:
            return now_ns(), effect
        gone = [node for node, line in self._lines.items() if not line.in_place()]
        in_parallel(lambda line: line.end(), list(self._lines.values()))
        healed = now_ns()
        left = [node for node, line in self._lines.items() if line.in_place()]
        # If another step delays the node too, an answer proves nothing about this fault.
        asked = [n.id for n in nodes if n.id in self._before and self._answers(n)]
        after: dict[int, float] = {}

        def answered() -> bool:
            after.update(self._measure([node for node in asked if node not in after]))
            return len(after) == len(asked)

        self.wait(answered)  # a node that another step has just started does not answer yet
        late = [node for node in asked if node not in after or self._late(node, after)]
        over = not left and not late
        details = [f"the delay of node {node} was gone before the heal" for node in gone]
        details += [f"the delay of node {node} is still in place" for node in left] or ["it is gone"]
        details.append(
            f"response time {_durations(after)} after the heal" if asked else "no node could be asked"
        )
        return effect.healed(healed if over else None, [", ".join(details)], over and not gone)

    def _late(self, node: int, now: dict[int, float]) -> bool:
        """Whether its answers are late compared with before; False if one of the two is missing."""
        if node not in now or node not in self._before:
            return False
        options = self.options
        return now[node] - self._before[node] >= least_ms(options.delay, options.jitter)

    def _answers(self, node: Node) -> bool:
        return node.running and not node.is_stopped() and StepRules(self.scene, node.id).alone()

    def _measure(self, nodes: Collection[int]) -> dict[int, float]:
        """By node, the median response time in ms; without nodes that did not answer."""
        paths = [(self._asked[node], node) for node in sorted(nodes)]
        times = in_parallel(lambda path: (path[1], self._answer_ms(path)), paths)
        return {node: ms for node, ms in times if ms is not None}

    def _answer_ms(self, path: probes.Path) -> float | None:
        """The median response time over a few connections; None if there was no answer."""
        party, node = path
        scene, options = self.scene, self.options
        place = scene.nodes[node].layout
        asked = probes.endpoint(node, scene)
        # TLS and SASL take five round trips before the request.
        limit_s = _ANSWER_S + (2 if asked.access is OPEN else 12) * options.delay / 1000
        took = []
        for _ in range(rounds(options.delay, options.jitter)):
            connection = scene.network.socket(None if party == CLIENTS else party)
            try:
                connection.settimeout(limit_s)
                connection.connect(asked.address)
                began = scene.clock.now()
                if place.role == "zookeeper":
                    connection.sendall(b"ruok")
                    connection.recv(4)
                else:
                    request = metadata() if place.broker_port is not None else describe_quorum()
                    ask(asked, request, limit_s, connection)
                took.append((scene.clock.now() - began) * 1000)
            except (OSError, Unanswered):
                pass
            finally:
                connection.close()
        return statistics.median(took) if took else None


def _durations(times: dict[int, float]) -> str:
    return ", ".join(f"{ms:.0f} ms" for _, ms in sorted(times.items())) or "no answer"
