"""How long the transactions of a run may stay open, and how much later their coordinator may abort them.

From the scenario, and from which producers recorded transactions. Not here: finding stalled offsets
(stable_offsets.py) and judging them (questions/transactions.py).
"""

from __future__ import annotations

from collections.abc import Collection

from kaput.analysis.facts.coordinators import outages
from kaput.analysis.facts.inputs import Inputs
from kaput.analysis.facts.outages import Outages
from kaput.analysis.facts.stable_offsets import Limits, find
from kaput.core import MS
from kaput.scenario.pipes import pipes
from kaput.scenario.vocabulary import KAFKAS_TIMEOUT_MS

_CLEANUP = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
_CLEANUP_MS, _MARKERS_MS = 10_000, 5_000


def limits(given: Inputs, recorded: Collection[int]) -> Limits:
    """How long a last stable offset may stall. `recorded`: producers with recorded transactions. Raises
    EvidenceError.
    """
    timeout_ns = _timeout_ns(given, recorded)
    late = any(one.ns > timeout_ns for one in find(given.samples))
    return Limits(timeout_ns, outages(given, recorded) if late else Outages())


def _timeout_ns(given: Inputs, recorded: Collection[int]) -> int:
    """The longest timeout of any transactional producer, including pipes. If neither scenario nor evidence
    tells which are transactional, of any producer.
    """
    if given.scenario is None:
        return KAFKAS_TIMEOUT_MS * MS
    specs = given.scenario.producer_specs()
    transactional = [
        spec
        for producer, spec in enumerate(specs)
        if spec.transactions is not None or "transactional.id" in spec.config or producer in recorded
    ]
    transactional += [pipe.produces.producers for pipe in pipes(given.scenario) if pipe.produces]
    return max(spec.transaction_timeout_ms for spec in transactional or specs) * MS


def abort_grace_ns(given: Inputs, topic: str) -> int:
    """How much later the coordinator in the cluster of that topic may notice that a transaction has timed
    out, and abort it.
    """
    interval = str(given.scenario.cluster_of_topic(topic).config.get(_CLEANUP)) if given.scenario else ""
    return ((int(interval) if interval.isdigit() else _CLEANUP_MS) + _MARKERS_MS) * MS
