"""stuck: messages that a group got only after a fault was healed. Defined in docs/GLOSSARY.md."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from kaput.analysis.engine.question import Find, Question, Reported, SumPart, facts, fault, findings
from kaput.analysis.engine.sums import Sum
from kaput.analysis.questions.latency import first_deliveries
from kaput.analysis.questions.silences import acks_untimed
from kaput.analysis.run import Run
from kaput.analysis.runs.columns import ACKED, DUE
from kaput.analysis.runs.run import NULL
from kaput.analysis.views.messages import Messages
from kaput.evidence.findings_claims import Claim
from kaput.scenario.fault_kinds import TAKE_NOTHING

GRACE_NS = 5_000_000_000
_STUCK = Sum(("fault", "group"), ("n",))
_SCHEMA = {"fault": pl.Int64, "group": pl.Int64, "n": pl.Int64}


@dataclass(frozen=True)
class Stuck(Question):
    """`heals`: by index of each healed fault on brokers, when it was healed (ns)."""

    heals: tuple[tuple[int, int], ...] = ()

    sums = {"stuck": _STUCK}

    def before_messages(self, run: Run) -> Stuck:
        heals = (
            (number, one.healed_ns)
            for number, one in enumerate(run.given.faults)
            if one.proven and one.healed_ns is not None and one.brokers and one.fault not in TAKE_NOTHING
        )
        return replace(self, heals=tuple(heals))

    def of_messages(self, messages: Messages) -> Iterator[Find]:
        rows = [row for group in messages.groups for row in self._of_group(messages, group)]
        yield SumPart("stuck", pl.DataFrame(rows, schema=_SCHEMA, orient="row"))

    def _of_group(self, messages: Messages, group: int) -> Iterator[tuple[int, int, int]]:
        last_ns = max((healed_ns for _, healed_ns in self.heals), default=0) - GRACE_NS
        early = messages.stretches.filter(ACKED & DUE, pl.col("done_ns_first") <= last_ns)
        if not self.heals or early.is_empty():
            return
        mine = messages.deliveries.filter(pl.col("part").is_in(early["part"].implode()), group=group)
        times = messages.times["dones"]
        for first in first_deliveries(early, mine, times, messages.polls):
            done_ns, polled_ns = first.since_ns, first.polled_ns
            for number, healed_ns in self.heals:
                by_then = (done_ns != NULL) & (done_ns <= healed_ns - GRACE_NS)
                if n := int(np.count_nonzero(by_then & (polled_ns > healed_ns))):
                    yield number, group, n

    def report(self, run: Run) -> Iterator[Reported]:
        """Stuck messages by fault and group; for the verdict, of the fault with the most."""
        by_fault: dict[str, dict[str, int]] = {}
        for number, group, n in run.sums["stuck"].sort("fault", "group").iter_rows():
            by_fault.setdefault(run.given.faults[number].id, {})[run.given.groups[group]] = n
        effective = {one.id: (one.effective_ns, one.healed_ns) for one in run.given.faults}
        for id_, groups in by_fault.items():
            yield fault(id_, stuck=groups)
            from_ns, to_ns = effective[id_]
            claims = [
                Claim(kind="stuck", fault=id_, group=of, from_ns=from_ns, to_ns=to_ns, figures={"stuck": n})
                for of, n in groups.items()
            ]
            yield findings(claims=claims)
        most = max((sum(groups.values()) for groups in by_fault.values()), default=0)
        yield facts(stuck=None if acks_untimed(run) else most)
