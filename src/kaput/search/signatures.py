"""How new what an experiment showed is: signatures, and the reward that steers the next draw.

A signature is a fault, the state it met (smallest ISR, nodes that were out, other faults, a rebalance), and
the next event. A near-miss is a signature of what comes before a loss: an ISR of one, no leader,
acknowledgements of a deposed leader, outcomes that stay unknown, anomalies that are permitted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kaput.evidence.findings import Findings

NEAR = "near: "
_OUT, _BACK = ("fenced", "stopped"), ("unfenced", "started")
Row = Mapping[str, Any]


def signatures(cluster_events: Iterable[Row], findings: Findings) -> frozenset[str]:
    """All of one run. `cluster_events`: the rows of that table."""
    events = sorted(cluster_events, key=lambda row: row["at_ns"])
    return frozenset([*_of_faults(events, findings), *(NEAR + word for word in _near(events, findings))])


def reward(found: Iterable[str], seen: Counter[str]) -> float:
    """From 0 to 1: half of it for the rarest signature, 1/n if it was seen n times, this time included; half
    for the rarest near-miss, which hardly falls (n to the power of -0.1): what comes close stays promising.
    """
    news = max((1 / (seen[each] + 1) for each in found if not each.startswith(NEAR)), default=0.0)
    near = max(((seen[each] + 1) ** -0.1 for each in found if each.startswith(NEAR)), default=0.0)
    return (news + near) / 2


def _of_faults(events: Sequence[Row], findings: Findings) -> Iterator[str]:
    for fault in findings.faults:
        if not fault.proven:
            continue
        at = fault.effective_ns or fault.injected_ns
        others = sorted(
            other.fault
            for other in findings.faults
            if other.id != fault.id
            and other.injected_ns <= at
            and (other.healed_ns is None or other.healed_ns > at)
        )
        busy = any(r.started_ns <= at and (r.ended_ns or at) >= at for r in findings.rebalances)
        following = next((row for row in events if row["at_ns"] > at), None)
        state = [_isr_at(events, at), f"{len(_out_at(events, at))} out", *(f"with {each}" for each in others)]
        state += ["rebalancing"] if busy else []
        yield f"{fault.fault} at {', '.join(state)}, then {_word(following)}"


def _isr_at(events: Sequence[Row], at: int) -> str:
    """The smallest ISR of any partition of the user's."""
    latest = {
        (row["topic"], row["partition"]): len(row["isr"])
        for row in events
        if row["at_ns"] <= at and row["isr"] is not None and not str(row["topic"]).startswith("__")
    }
    return f"ISR {min(latest.values(), default=0)}"


def _out_at(events: Sequence[Row], at: int) -> set[int]:
    out: set[int] = set()
    for row in events:
        if row["at_ns"] <= at and row["broker"] is not None:
            (out.add if row["kind"] in _OUT else out.discard)(row["broker"])
    return out


def _word(event: Row | None) -> str:
    if event is None:
        return "nothing"
    if event["kind"] == "isr":
        return f"ISR {len(event['isr'] or ())}"
    if event["kind"] == "leader":
        return "no leader" if event["leader"] == -1 else "election"
    return str(event["kind"])


def _near(events: Sequence[Row], findings: Findings) -> Iterator[str]:
    replicas: dict[tuple[str, int], int] = {}
    for row in events:
        if row["isr"] is None or row["at_ns"] < findings.run.started_ns:
            continue
        place = (row["topic"], row["partition"])
        replicas[place] = max(replicas.get(place, 0), len(row["isr"]))
        internal = str(row["topic"]).startswith("__")
        if row["leader"] == -1:
            yield "coordinator without leader" if internal else "no leader"
        elif internal and row["kind"] == "leader":
            yield "coordinator moved"
        elif len(row["isr"]) == 1 < replicas[place] and not internal:
            yield "ISR of one"
    if any(change.deposed_acks for change in findings.leader_changes):
        yield "deposed acknowledgements"
    if findings.totals.unknown:
        yield "unknown outcomes"
    if findings.transactions and findings.transactions.unknown:
        yield "unknown commits"
    for anomaly in findings.anomalies:
        if anomaly.count:
            yield f"permitted {anomaly.name}"
