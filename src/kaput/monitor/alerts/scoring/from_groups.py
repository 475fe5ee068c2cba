"""Samples of consumer groups: lag in records and in seconds, and whether partitions have an owner."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from kaput.core import SECOND
from kaput.evidence.reading import Evidence
from kaput.monitor.alerts.scoring.from_messages import Sends
from kaput.monitor.signals import Sample

Longs = npt.NDArray[np.int64]
Place = tuple[str, int]
_RELEASED = {"revoked", "lost", "left", "killed"}


def group_samples(evidence: Evidence, sends: Sends, moments: Longs) -> Iterator[Sample]:
    """Samples at each of these times; none of a lag that was not measured in the second before."""
    yield from _lags(evidence, sends, moments)
    yield from _rebalancing(evidence, moments)


def _lags(evidence: Evidence, sends: Sends, moments: Longs) -> Iterator[Sample]:
    stored = {(topic, partition): _AckedMessages(sent) for topic, partition, sent in sends.places()}
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

    def __init__(self, sends: Sends) -> None:
        rows = np.flatnonzero(sends.acked & (sends.offset >= 0))
        rows = rows[np.argsort(sends.offset[rows], kind="stable")]
        self._offsets, self._acked_ns = sends.offset[rows], sends.done_ns[rows]

    def oldest_age_s(self, committed: int, at_ns: int) -> float:
        """How long ago the first message at or after that offset was acknowledged; 0 if there is none."""
        first = int(np.searchsorted(self._offsets, committed))
        if first == len(self._offsets):
            return 0.0
        return max(0.0, (at_ns - int(self._acked_ns[first])) / SECOND)


def _rebalancing(evidence: Evidence, moments: Longs) -> Iterator[Sample]:
    """A group is rebalancing while a partition that a member had has no owner."""
    events = sorted(evidence.rows("group_events"), key=lambda event: event["at_ns"])
    owners: dict[str, dict[Place, str | None]] = {}
    applied = 0
    for at_ns in moments.tolist():
        while applied < len(events) and events[applied]["at_ns"] <= at_ns:
            _apply(owners.setdefault(events[applied]["group"], {}), events[applied])
            applied += 1
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
