"""Rulings that depend on where, when or why something happened: one small history for each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fakes.histories import History, at
from fakes.judging import counts, judged
from kaput.evidence.findings import Findings


def violations(findings: Findings) -> dict[str, int]:
    """What was found and is not permitted."""
    return {a.name: a.count - a.permitted for a in findings.anomalies if a.count > a.permitted}


def _power_lost_in_dc2(flushed: str, **topic: Any) -> History:
    """Both in-sync brokers of dc2 lose power after ten acknowledgements, and come back with five; one of the
    clusters syncs each message.
    """
    syncs = {"config": {"log.flush.interval.messages": 1}}
    history = History(
        producers=[{"topic": "orders", "cluster": name, "acks": "all"} for name in ("dc1", "dc2")],
        topics=[{"name": "orders", "cluster": "dc1"}, {"name": "orders", "cluster": "dc2"} | topic],
        clusters={name: syncs if name == flushed else {} for name in ("dc1", "dc2")},
    )
    for seq in range(5):
        history.acked(0, seq, seq)
    history.rows["log"] = [row | {"cluster": "dc1"} for row in history.rows["log"]]
    history.rows["sends"] = [row | {"cluster": "dc1"} for row in history.rows["sends"]]
    there: dict[str, Any] = {"cluster": "dc2"}
    for seq in range(10):
        history.sent(1, seq, seq, **there)
    for seq in range(5):
        history.stored(seq, 1, seq, **there).sent(1, 10 + seq, 5 + seq, attempt_ns=at(7000), **there)
        history.stored(5 + seq, 1, 10 + seq, leader_epoch=1, **there)
    history.led(1001, 0, -100, [1001, 1002], **there).led(1002, 1, 6000, [1002], **there)
    history.fault(1001, 40, 5000, id="power", fault="power-loss", target="all")
    history.rows["faults"][-1]["brokers"] = [1001, 1002]
    return history


@pytest.mark.parametrize(
    ("flushed", "topic", "verdict"),
    [
        ("dc1", {}, "held"),
        ("dc2", {}, "violated"),
        ("dc1", {"config": {"flush.messages": 1}}, "violated"),
        ("dc2", {"config": {"flush.messages": 1000}}, "held"),
    ],
)
def test_flush_setting_of_the_cluster_that_lost_power_counts(
    flushed: str, topic: dict[str, Any], verdict: str, tmp_path: Path
) -> None:
    """The other cluster's promises nothing here; the topic's own setting comes before its cluster's."""
    found = judged(_power_lost_in_dc2(flushed, **topic), tmp_path)
    assert (found.verdict, counts(found)["lost"]) == (verdict, 5)
    assert violations(found).get("lost", 0) == (5 if verdict == "violated" else 0)
