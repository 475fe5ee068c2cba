"""The samples that a monitor would have taken during a recorded run: from its evidence, second by second.

A run folder lacks some of what a live cluster shows: disks, certificates, and the lag of quorum voters.
Signals without samples are not played, nor are rules on them.

From top to bottom: the recording; playing rules over it; samples of the cluster's state, of consumer groups,
and of what producers saw.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from kaput.core import FOREVER_NS, MS, SECOND
from kaput.errors import EvidenceError
from kaput.evidence.parquet import table_of, with_clusters
from kaput.evidence.reading import Evidence
from kaput.evidence.schemas import TABLES
from kaput.monitor.alerts.engine import Engine
from kaput.monitor.alerts.rules import AlertRule, AlertRules
from kaput.monitor.signals import Sample
from kaput.scenario.loader import read_resolved

Longs = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Recording:
    """`steps`: by time (ns), in order, the samples taken then."""

    steps: Mapping[int, list[Sample]]

    @property
    def signals(self) -> set[str]:
        return {sample.name for samples in self.steps.values() for sample in samples}

    @property
    def length_ns(self) -> int:
        return max(self.steps) - min(self.steps)

    def only(self, signal: str) -> Recording:
        kept = {at: [each for each in samples if each.name == signal] for at, samples in self.steps.items()}
        return Recording(kept)


def recording_of(evidence: Evidence) -> Recording:
    """Samples from the first attempt to the last: later nothing can be missed. Raises EvidenceError."""
    sends = sends_of(evidence)
    if sends.is_empty():
        raise EvidenceError(
            f"{evidence.folder.title}: nothing was sent; there is nothing to evaluate rules on"
        )
    attempts = sends["attempt_ns"].to_numpy()
    moments = np.arange(attempts[0], attempts[-1] + 1, SECOND, dtype=np.int64)
    # By partition, in order.
    by_place = sorted(sends.partition_by("topic", "partition", as_dict=True).items())
    samples: Iterable[Sample] = (
        *message_samples(by_place, moments),
        *cluster_samples(evidence, moments),
        *_lags(evidence, by_place, moments),
        *_rebalancing(evidence, moments),
    )
    steps: dict[int, list[Sample]] = defaultdict(list)
    for sample in samples:
        steps[sample.at_ns].append(sample)
    return Recording({int(at): steps[int(at)] for at in moments})


@dataclass(frozen=True)
class Episode:
    """From announcement to resolution (None: never). `active_ns`: when its condition began to hold."""

    rule: AlertRule
    labels: Mapping[str, str]
    summary: str
    active_ns: int
    fired_ns: int
    resolved_ns: int | None = None


@dataclass(frozen=True)
class Playback:
    """`episodes`: in the order of their announcement. `explained`: for alerts that fired but were not
    announced, because another explained them: the rule's name and when its condition began to hold.
    """

    episodes: Sequence[Episode] = ()
    explained: Sequence[tuple[str, int]] = ()


def played(rules: AlertRules, recording: Recording) -> Playback:
    """What the rules would have announced."""
    engine = Engine(rules)
    open_: dict[str, Episode] = {}
    episodes: list[Episode] = []
    explained: list[tuple[str, int]] = []
    for at_ns, samples in recording.steps.items():
        for each in engine.step(samples, at_ns):
            alert = each.alert
            if each.announce and each.change != "resolved":
                open_[alert.key] = Episode(alert.rule, alert.labels, alert.summary, alert.active_ns, at_ns)
            elif each.announce:
                begun = open_.pop(alert.key)
                episodes.append(replace(begun, resolved_ns=at_ns))
            elif each.change == "firing":
                explained.append((alert.rule.name, alert.active_ns))
    episodes += open_.values()
    episodes.sort(key=lambda each: (each.fired_ns, each.rule.name, str(each.labels)))
    return Playback(episodes, explained)


def playable(rules: AlertRules, recording: Recording) -> tuple[AlertRules | None, dict[str, str]]:
    """The rules that can fire in this recording, or None; and by name, why the others cannot."""
    why = {rule.name: words for rule in rules if (words := _why_not(rule, recording))}
    kept = [rule for rule in rules if rule.name not in why]
    return (rules.model_copy(update={"alert_rules": kept}) if kept else None), why


def _why_not(rule: AlertRule, recording: Recording) -> str:
    if rule.signal not in recording.signals:
        return "runs do not record their signals"
    return "the run is shorter than `for`" if rule.for_ * MS > recording.length_ns else ""


_MIN_ISR = "min.insync.replicas"
_NO_LEADER = -1
Place = tuple[str, int]


@dataclass
class _ClusterSoFar:
    """The cluster's state so far. `replicas`: by partition, the brokers ever seen in its ISR."""

    brokers: dict[int, bool] = field(default_factory=dict)
    nodes: dict[int, bool] = field(default_factory=dict)  # by node, whether its process runs
    leaders: dict[Place, int] = field(default_factory=dict)
    isr: dict[Place, set[int]] = field(default_factory=dict)
    eligible: dict[Place, set[int]] = field(default_factory=dict)
    replicas: dict[Place, set[int]] = field(default_factory=dict)
    unclean: int = 0

    def apply(self, event: Mapping[str, Any]) -> None:
        match event["kind"]:
            case "fenced" | "unfenced":
                self.brokers[event["broker"]] = event["kind"] == "unfenced"
            case "started" | "stopped":
                self.nodes[event["broker"]] = event["kind"] == "started"
            case "leader" | "isr" if event["topic"] is not None:
                self._partition((event["topic"], event["partition"]), event)

    def _partition(self, place: Place, event: Mapping[str, Any]) -> None:
        leader = event.get("leader")
        if event["kind"] == "leader" and leader is not None:
            known = self.isr.get(place, set()) | self.eligible.get(place, set())
            self.unclean += bool(known) and leader != _NO_LEADER and leader not in known
            self.leaders[place] = leader
        if event.get("isr") is not None:
            self.isr[place] = set(event["isr"])
            self.replicas.setdefault(place, set()).update(event["isr"])
        if event.get("elr") is not None:
            self.eligible[place] = set(event["elr"])


def cluster_samples(evidence: Evidence, moments: Longs) -> Iterator[Sample]:
    """Samples at each of these times; none if the run has no such events. Raises EvidenceError."""
    min_isr, spare = _intended(evidence)
    state = _ClusterSoFar()
    for at_ns, events in _by_moment(evidence.rows("cluster_events"), moments):
        for event in events:
            state.apply(event)
        for name, value, labels in (*_values(state, min_isr), *spare):
            yield Sample(name, float(value), at_ns, labels)


def _by_moment(
    rows: Iterable[Mapping[str, Any]], moments: Longs
) -> Iterator[tuple[int, list[Mapping[str, Any]]]]:
    """Each of these times, with the rows since the one before."""
    left = deque(sorted(rows, key=lambda row: row["at_ns"]))
    for at_ns in moments.tolist():
        new = []
        while left and left[0]["at_ns"] <= at_ns:
            new.append(left.popleft())
        yield at_ns, new


Values = Iterable[tuple[str, float, dict[str, str]]]  # (signal, value, labels)


def _values(state: _ClusterSoFar, min_isr: Mapping[str, int]) -> Values:
    for broker, up in state.brokers.items():
        yield "kaput_broker_up", up, {"broker": str(broker)}
    controllers = [runs for node, runs in state.nodes.items() if node not in state.brokers]
    if state.brokers and controllers:
        yield "kaput_active_controllers", 2 * sum(controllers) > len(controllers), {}
    if not state.leaders:
        return
    yield "kaput_offline_partitions", sum(leader == _NO_LEADER for leader in state.leaders.values()), {}
    under = [place for place, isr in state.isr.items() if len(isr) < min_isr.get(place[0], 1)]
    yield "kaput_under_min_isr_partitions", len(under), {}
    yield "kaput_unclean_elections_total", state.unclean, {}
    lacking = {place: known - state.isr[place] for place, known in state.replicas.items()}
    for broker in state.brokers:
        out = sum(broker in missing for missing in lacking.values())
        led = sum(bool(lacking[place]) for place, leader in state.leaders.items() if leader == broker)
        yield "kaput_out_of_sync_replicas", out, {"broker": str(broker)}
        yield "kaput_under_replicated_partitions", led, {"broker": str(broker)}


def _intended(evidence: Evidence) -> tuple[Mapping[str, int], Values]:
    """By topic of the scenario, how many replicas acks=all requires; and the values that follow."""
    try:
        scenario = read_resolved(evidence.folder.scenario_path)
    except EvidenceError:
        return {}, ()
    factors = {topic.full_name: topic.replication_factor for topic in scenario.topics}
    min_isr = {
        name: scenario.effective_min_isr(name, scenario.topic_setting(name, _MIN_ISR, "1"))
        for name in factors
    }
    spare = {name: factor - min_isr[name] for name, factor in factors.items()}
    return min_isr, [("kaput_spare_replicas", count, {"topic": name}) for name, count in spare.items()]


_RELEASED = {"revoked", "lost", "left", "killed"}


def _lags(evidence: Evidence, by_place: SendsByPlace, moments: Longs) -> Iterator[Sample]:
    """None of a lag that was not measured in the second before."""
    stored = {place: _AckedMessages(sent) for place, sent in by_place}
    for row in evidence.rows("samples"):
        labels = dict(row["labels"] or ())
        if row["name"] not in ("lag", "committed_offset") or not {"group", "topic", "partition"} <= set(
            labels
        ):
            continue
        at = int(np.searchsorted(moments, row["at_ns"]))
        if at == len(moments):
            continue
        at_ns = int(moments[at])
        kept = {name: labels[name] for name in ("group", "topic", "partition")}
        if row["name"] == "lag":
            yield Sample("kaput_consumer_lag_records", row["value"], at_ns, kept)
        elif (sent := stored.get((labels["topic"], int(labels["partition"])))) is not None:
            age_s = sent.oldest_age_s(int(row["value"]), row["at_ns"])
            yield Sample("kaput_consumer_lag_seconds", age_s, at_ns, kept)


class _AckedMessages:
    """The acknowledged messages of a partition, by offset."""

    def __init__(self, sends: pl.DataFrame) -> None:
        rows = sends.filter(pl.col("outcome") == "acked", pl.col("offset") >= 0).sort("offset")
        self._offsets, self._acked_ns = rows["offset"].to_numpy(), rows["done_ns"].to_numpy()

    def oldest_age_s(self, committed: int, at_ns: int) -> float:
        """How long ago the first message at or after that offset was acknowledged; 0 if there is none."""
        first = int(np.searchsorted(self._offsets, committed))
        if first == len(self._offsets):
            return 0.0
        return max(0.0, (at_ns - int(self._acked_ns[first])) / SECOND)


def _rebalancing(evidence: Evidence, moments: Longs) -> Iterator[Sample]:
    """A group is rebalancing while a partition that a member had has no owner."""
    owners: dict[str, dict[Place, str | None]] = {}
    for at_ns, events in _by_moment(evidence.rows("group_events"), moments):
        for event in events:
            _apply(owners.setdefault(event["group"], {}), event)
        for group, places in owners.items():
            if places:
                yield Sample(
                    "kaput_group_rebalancing", float(None in places.values()), at_ns, {"group": group}
                )


def _apply(places: dict[Place, str | None], event: Mapping[str, Any]) -> None:
    member = event["member"]
    place = None if event["partition"] is None else (event["topic"], event["partition"])
    if event["kind"] == "assigned" and place is not None:
        places[place] = member
    elif event["kind"] in _RELEASED:
        for each in [place] if place is not None else [*places]:
            if places.get(each) == member:
                places[each] = None


_COLUMNS = ("topic", "partition", "attempt_ns", "done_ns", "outcome", "offset", "cluster")
_NO_PARTITION = -1  # the client did not report it
SendsByPlace = Sequence[tuple[tuple[Any, ...], pl.DataFrame]]


def sends_of(evidence: Evidence) -> pl.DataFrame:
    """The attempts of a run by time. `done_ns`: FOREVER_NS if none; `offset`: -1 if unknown. Raises
    EvidenceError.
    """
    sends = evidence.tables["sends"]
    schema = pa.schema(
        field
        for field in TABLES["sends"].schema
        if field.name in _COLUMNS and field.name not in sends.lacking
    )
    tables = [table_of(path, schema) for path in sends.files]
    table = pa.concat_tables(tables) if tables else schema.empty_table()
    if "cluster" in table.column_names:
        topics = with_clusters(table["cluster"], table["topic"])
        table = table.set_column(table.column_names.index("topic"), "topic", topics)
    return (
        pl.DataFrame(table)
        .select(
            pl.col("topic", "outcome").cast(pl.String),
            pl.col("partition").cast(pl.Int64).fill_null(_NO_PARTITION),
            "attempt_ns",
            pl.col("done_ns").fill_null(FOREVER_NS),
            pl.col("offset").fill_null(-1),
        )
        .sort("attempt_ns", maintain_order=True)
    )


def message_samples(by_place: SendsByPlace, moments: Longs) -> Iterator[Sample]:
    """Samples at each of these times."""
    for (topic, partition), sent in by_place:
        done = {
            outcome: sent.filter(outcome=outcome)["done_ns"].to_numpy() for outcome in ("acked", "failed")
        }
        labels = {"topic": topic, "partition": str(partition)}
        columns = {
            "kaput_messages_sent_total": _counted(sent["attempt_ns"].to_numpy(), moments),
            "kaput_messages_acked_total": _counted(done["acked"], moments),
            "kaput_messages_failed_total": _counted(done["failed"], moments),
            "kaput_unacknowledged_seconds": _waiting_s(sent, done["acked"], moments),
        }
        for name, values in columns.items():
            for at_ns, value in zip(moments.tolist(), values.tolist(), strict=True):
                yield Sample(name, float(value), at_ns, labels)


def _counted(times: Longs, moments: Longs) -> Longs:
    """How many of `times` have passed at each moment."""
    return np.searchsorted(np.sort(times), moments, side="right")


def _waiting_s(sent: pl.DataFrame, acked_ns: Longs, moments: Longs) -> npt.NDArray[np.float64]:
    """Seconds since the last acknowledgement, or since the oldest waiting attempt if that was later; 0 if
    none waits. The oldest attempt without an outcome at a moment is the first at which the running maximum of
    outcome times is later.
    """
    attempts = sent["attempt_ns"].to_numpy()
    first = np.searchsorted(sent["done_ns"].cum_max().to_numpy(), moments, side="right")
    waits = first < np.searchsorted(attempts, moments, side="right")
    oldest = attempts[np.minimum(first, len(sent) - 1)]
    acks = np.sort(acked_ns)
    before = np.searchsorted(acks, moments, side="right") - 1
    last_ack = np.where(before >= 0, acks[np.maximum(before, 0)] if len(acks) else 0, 0)
    return np.where(waits, (moments - np.maximum(oldest, last_ack)) / SECOND, 0.0)
