"""Plays experiments of a space and stores their results and signatures, whose novelty steers the next draw.

Not here: choosing experiments (draw.py, searching.py), and playing a trial (trials/).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

from kaput.core import MS
from kaput.errors import KaputError
from kaput.evidence.findings import Findings
from kaput.evidence.reading import check
from kaput.search.space import Choices, Space, time_in_words
from kaput.search.store import SearchStore, StoredExperiment
from kaput.search.symptoms import symptoms
from kaput.trials.batch import Judged, Trial

NEAR = "near: "
_OUT, _BACK = ("fenced", "stopped"), ("unfenced", "started")
# Requests that, when retried, may be applied twice or to the wrong transaction.
_CHANGES = ("Produce", "InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn")
_NEAR_SHARE = 0.7
_LONGER_MS = 1_000  # tolerance: a reader learns of the end of a transaction later than the producer
Row = Mapping[str, Any]


@dataclass(frozen=True)
class EventRows:
    """Rows of these evidence tables of a run, in order of time."""

    cluster_events: Sequence[Row]
    frames: Sequence[Row] = ()
    transactions: Sequence[Row] = ()

    @cached_property
    def asked_again(self) -> list[Row]:
        """Frames that a fault acted on and whose senders then retried on another connection."""
        last: dict[tuple[str, str | None], dict[str, int]] = {}
        for row in self.frames:
            last.setdefault((row["api"], row["client_id"]), {})[row["connection"]] = row["at_ns"]
        return [
            row
            for row in self.frames
            if row["action"]
            for connection, at_ns in last[row["api"], row["client_id"]].items()
            if connection != row["connection"] and at_ns > row["at_ns"]
        ]


def signatures(seen: EventRows, findings: Findings) -> frozenset[str]:
    """All signatures of a run."""
    near = [*_near(seen.cluster_events, findings), *_near_in_protocol(seen, findings)]
    return frozenset([*_of_faults(seen, findings), *(NEAR + word for word in near)])


def reward(
    found: Iterable[str], seen: Counter[str], missed: Collection[int] = (), findings: Findings | None = None
) -> float:
    """The reward, from 0 to 1: 0.3 times 1/n for the rarest signature, seen n times including this one; plus
    0.7 times n**-0.5 for the rarest near-miss, which falls more slowly so that near-misses stay promising
    unless they are common. 0 if steps were `missed` and the run is inconclusive: these choices do not go
    together.
    """
    if missed and findings is not None and findings.promise == "inconclusive":
        return 0.0
    news = max((1 / (seen[each] + 1) for each in found if not each.startswith(NEAR)), default=0.0)
    near = max(((seen[each] + 1) ** -0.5 for each in found if each.startswith(NEAR)), default=0.0)
    return (1 - _NEAR_SHARE) * news + _NEAR_SHARE * near


def _of_faults(seen: EventRows, findings: Findings) -> Iterator[str]:
    events = seen.cluster_events
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
        state += ["in a transaction"] if any(_open_at(row, at) for row in seen.transactions) else []
        what = _in_protocol(fault.id, seen) or fault.fault
        yield f"{what} at {', '.join(state)}, then {_word(following)}"


def _open_at(transaction: Row, at: int) -> bool:
    ended = transaction["end_ns"]
    return bool(transaction["begin_ns"] <= at and (ended is None or at < ended))


def _in_protocol(fault: str, seen: EventRows) -> str:
    """`EndTxn delayed, retried`; empty if the fault acted on no request."""
    acted = next((row for row in seen.frames if row["fault"] == fault and row["action"]), None)
    if acted is None:
        return ""
    again = any(row["fault"] == fault for row in seen.asked_again)
    return f"{acted['api']} {acted['action']}" + (", retried" if again else "")


def _isr_at(events: Sequence[Row], at: int) -> str:
    """The smallest ISR of any partition, without internal topics."""
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
    if not _producer_killed(findings):
        yield from _near_outcomes(findings)


def _near_outcomes(findings: Findings) -> Iterator[str]:
    if findings.totals.unknown:
        yield "unknown outcomes"
    if findings.transactions and findings.transactions.unknown:
        yield "unknown commits"
    for anomaly in findings.anomalies:
        if anomaly.count:
            yield f"permitted {anomaly.name}"


def _producer_killed(findings: Findings) -> bool:
    """Whether a producer was killed: unknown outcomes and an open transaction are no near-miss."""
    return any(fault.fault == "kill" and fault.target.startswith("producer ") for fault in findings.faults)


def _near_in_protocol(seen: EventRows, findings: Findings) -> Iterator[str]:
    for row in seen.asked_again:
        if row["api"] in _CHANGES:
            yield f"{row['api']} retried"
    waited = findings.transactions.longest_standstill_ms if findings.transactions else None
    if _producer_killed(findings):
        waited = None  # its transaction is open until the coordinator aborts it
    lasted = [row["end_ns"] - row["begin_ns"] for row in seen.transactions if row["end_ns"] is not None]
    if waited is not None and waited > max(lasted, default=0) / MS + _LONGER_MS:
        yield "a transaction is open that no producer has"
    for row in seen.transactions:
        if row["error"] and row["outcome"] != "committed":
            yield f"transaction {row['outcome']} after {row['error'].partition(':')[0]}"


class Play(Protocol):
    """Plays trials and judges them, in any order; takes a trial when it can begin (trials/trials.py)."""

    def __call__(self, trials: Iterable[Trial], /) -> Iterator[Judged]: ...


class Experiments:
    """Plays and stores the experiments of one search. `on_done`: called for each finished experiment."""

    def __init__(
        self,
        space: Space,
        store: SearchStore,
        play: Play,
        budget_s: float,
        on_done: Callable[[StoredExperiment], None],
    ) -> None:
        self.space, self.store = space, store
        self._play, self._on_done = play, on_done
        self._budget_s, self._spent_s = budget_s, store.spent_s
        self._since = time.monotonic()
        drawn = store.experiments("draw")
        self._seen = Counter(each for experiment in drawn for each in experiment.signatures)

    @property
    def spent_s(self) -> float:
        """Seconds of search so far, including those before it was resumed."""
        return self._spent_s + time.monotonic() - self._since

    @property
    def left_s(self) -> float:
        return self._budget_s - self.spent_s

    def run(self, wanted: Iterable[StoredExperiment]) -> Iterator[StoredExperiment]:
        """Plays experiments that the store has begun; yields each one when its result is stored."""
        begun: dict[str, StoredExperiment] = {}
        for judged in self._play(self._trials(wanted, begun)):
            yield self._keep(begun.pop(judged.trial.name), judged)

    def _trials(
        self, wanted: Iterable[StoredExperiment], begun: dict[str, StoredExperiment]
    ) -> Iterator[Trial]:
        for one in wanted:
            scale = 1.0 if one.purpose == "final" else self.store.settings.scale
            labels = {**one.choices.settings, "faults": _summary(one.choices), "scale": scale}
            scenario = self.space.scenario(one.choices, optional=True)
            trial = Trial(f"{self.space.name}-{one.id}", scenario, one.seed, labels, scale)
            begun[trial.name] = one
            yield trial

    def _keep(self, experiment: StoredExperiment, judged: Judged) -> StoredExperiment:
        found, missed = _signatures(judged), _missed(judged, len(experiment.choices.steps))
        experiment = replace(
            experiment,
            # Experiments that share a cluster have the seed of the first, even if drawn with another one.
            seed=judged.folder.read_manifest().seed if judged.findings and judged.folder else experiment.seed,
            done=True,
            verdict=judged.findings.verdict if judged.findings else None,
            symptoms=tuple(symptom.key for symptom in symptoms(judged)),
            signatures=tuple(sorted(found)),
            reward=reward(found, self._seen, missed, judged.findings),
            missed=missed,
            seconds=judged.seconds,
            folder=judged.folder.path.name if judged.folder else None,
            error=judged.error,
        )
        self.store.save(experiment)
        self.store.spent_s = self.spent_s
        if experiment.purpose == "draw":
            self._seen.update(found)
        self._on_done(experiment)
        return experiment


def _summary(choices: Choices) -> str:
    """`stop broker 2 at 2s, power-loss broker 1 at election`."""
    return ", ".join(
        f"{s.get('fault')} {s.get('target', '')} at {time_in_words(s.get('at'))}" for s in choices.steps
    )


def _missed(judged: Judged, steps: int) -> tuple[int, ...]:
    """The steps that had no effect, by their places; a step without any record is one of them."""
    if judged.findings is None:
        return ()
    worked = {int(fault.id.partition("-")[0]) - 1 for fault in judged.findings.faults if fault.proven}
    return tuple(index for index in range(steps) if index not in worked)


def _signatures(judged: Judged) -> frozenset[str]:
    if judged.findings is None or judged.folder is None:
        return frozenset()
    try:
        evidence = check(judged.folder)
        events = sorted(evidence.rows("cluster_events"), key=lambda row: row["at_ns"])
        frames = sorted(evidence.rows("frames"), key=lambda row: row["at_ns"])
        return signatures(EventRows(events, frames, evidence.rows("transactions")), judged.findings)
    except KaputError:
        return frozenset()
