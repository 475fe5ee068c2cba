"""loss: a random share of the packets is dropped, as on a bad cable or an overloaded switch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kaput.cluster.node import Node
from kaput.errors import LabError
from kaput.faults import probes
from kaput.faults.fault import Effect, NodeFault, Scene, in_parallel, name_all, now_ns
from kaput.faults.rules import StepRules, across, addresses, dropping
from kaput.scenario.fault_kinds import LossOptions

_SAMPLE_S = 1.5
_EXPECTED = 30  # lost datagrams per sample, if time allows


class LossSample(NamedTuple):
    """How many datagrams were sent one way, and how many of them arrived."""

    sent: int
    arrived: int


def loses(sample: LossSample, percent: float) -> bool:
    """Whether a direction loses that share of packets: at least a third of the expected loss, and at least
    one. With 30 losses expected, fewer than a third are missing once in 100,000 samples.
    """
    missing = sample.sent - sample.arrived
    return missing >= max(1.0, sample.sent * percent / 100 / 3)


class PacketLoss(NodeFault):
    """Proof: datagrams that arrived before are lost now, and the filter's counters agree."""

    name = "loss"
    needs = ("numgen",)
    options: LossOptions

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._tables: dict[int, StepRules] = {}
        self._ways: list[probes.Path] = []

    def inject_into(self, alive: Sequence[Node], nodes: Sequence[Node]) -> Effect:
        options = self.options
        parties = {n.id: across(n.id, options.from_, self.scene) for n in nodes}
        met = {node: of for node, of in parties.items() if of}
        if not met:
            return Effect(None, False, f"{name_all(nodes)}: there is no other party to drop packets from")
        inward = [(min(of), node) for node, of in met.items()]
        outward = [(node, party) for party, node in inward]
        self._ways = [
            w
            for way, ws in (("in", inward), ("out", outward))
            if options.direction in ("both", way)
            for w in ws
        ]
        before = self._sample(self._ways)
        for node, of in met.items():
            self._tables[node] = StepRules(self.scene, node)
            self._tables[node].put(dropping(addresses(of, self.scene), options.direction, options.percent))
        effective = now_ns()
        during = self._sample(self._ways)
        confirmed = all(not self._loses(before[way]) and self._loses(during[way]) for way in self._ways)
        confirmed = confirmed and all(self._dropped(node) for node in self._tables)
        details = (
            f"{name_all(alive)}: {options.percent:g} % of the packets are dropped; datagrams"
            f" that arrived: {_details(before)} before, {_details(during)} now; {self._counts()} so far"
        )
        return Effect(effective, confirmed and len(alive) == len(nodes) == len(self._tables), details)

    def heal(self, nodes: Sequence[Node], effect: Effect) -> tuple[int | None, Effect]:
        if not self._tables:
            return now_ns(), effect
        counts = f"{self._counts()} when it was healed"
        gone = [node for node in self._tables if self._count(node) is None]
        for table in self._tables.values():
            table.remove()
        healed = now_ns()
        left = [node for node, table in self._tables.items() if table.exists()]
        # Where another step has rules too, losses prove nothing about this fault.
        busy = {n for way in self._ways for n in way if n and not StepRules(self.scene, n).alone()}
        after = self._sample([way for way in self._ways if not busy & set(way)])
        lossy = [way for way, sample in after.items() if self._loses(sample)]
        over = not left and not lossy
        details = [counts, *(f"the rules of node {node} were gone before the heal" for node in gone)]
        details += [f"the rules of node {node} are still there" for node in left]
        details += ["the rules are gone"] if not left else []
        details.append(
            f"datagrams that arrived: {_details(after)} after the heal" if after else "nothing could be tried"
        )
        return healed if over else None, effect.with_proof("; ".join(details), over and not gone)

    def _sample(self, ways: Sequence[probes.Path]) -> dict[probes.Path, LossSample]:
        """Enough datagrams each way that about thirty are lost, within the time limit; the counts."""
        count = round(_EXPECTED * 100 / self.options.percent)
        samples = in_parallel(
            lambda way: LossSample(*probes.send_datagrams(way, self.scene, count, _SAMPLE_S)), ways
        )
        return dict(zip(ways, samples, strict=True))

    def _loses(self, sample: LossSample) -> bool:
        return loses(sample, self.options.percent)

    def _count(self, node: int) -> Mapping[str, int] | None:
        """The counters; None if the rules do not exist."""
        try:
            return self._tables[node].counters()
        except LabError:
            return None

    def _dropped(self, node: int) -> int:
        return _sum(self._count(node) or {}, "dropped")

    def _counts(self) -> str:
        counts = [(node, self._count(node) or {}) for node in self._tables]
        return "; ".join(
            f"node {node}: {_sum(c, 'dropped'):,} of {_sum(c, 'seen'):,} packets dropped"
            for node, c in counts
        )


def _sum(counters: Mapping[str, int], what: str) -> int:
    return sum(count for name, count in counters.items() if name.endswith(what))


def _details(samples: Mapping[probes.Path, LossSample]) -> str:
    return ", ".join(f"{sample.arrived:,} of {sample.sent:,}" for sample in samples.values())
