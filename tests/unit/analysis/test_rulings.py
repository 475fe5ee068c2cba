"""Rulings that depend on where, when or why something happened: one small history for each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fakes.histories import History, at
from fakes.judging import counts, judged
from fakes.mirror_histories import HERE, THERE, sent_and_mirrored, two_clusters
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


def _read(history: History, *offsets: int, ms: float, **more: Any) -> History:
    for offset in offsets:
        history.handed(offset, 0, offset, ms, **more)
    return history


@pytest.mark.parametrize(
    ("first", "ahead"), [(None, 2), (0, 2), (5, 2), (8, 0)], ids=["no offset", "0", "5", "8"]
)
def test_a_group_begins_at_its_first_assignment_or_delivery(
    first: int | None, ahead: int, tmp_path: Path
) -> None:
    """m1 reads 0 to 4 and commits 8; m2 is assigned 8. The second assignment tells nothing of the first."""
    history = History(groups={"billing": False})
    for seq in range(10):
        history.acked(0, seq, seq)
    _read(history.event("assigned", -1, first), 0, 1, 2, 3, 4, ms=20).event("committed", 30, 8)
    history.event("revoked", 40).event("assigned", 50, 8, member="m2")
    _read(history, 8, 9, ms=60, member="m2").event("committed", 70, 10, member="m2")
    found = judged(history, tmp_path)
    assert (found.anomaly("commit-ahead")[0].count, found.verdict) == (
        *(ahead, "violated" if ahead else "inconclusive"),
    )


@pytest.mark.parametrize("translated", [True, False], ids=["translated", "assigned only"])
@pytest.mark.parametrize("first", [0, None])
def test_a_group_that_fails_back_begins_anew(first: int | None, translated: bool, tmp_path: Path) -> None:
    """It read message 0 in dc1, went to dc2 and came back to offset 3: its commits of 3 and 4 are not ahead;
    that of 6, without 4 and 5, is.
    """
    history = sent_and_mirrored(two_clusters(groups=["billing"]), 0, sent=6)
    history.groups = {"billing": False}
    history.mirrors.append({"from": "dc2", "to": "dc1", "topics": ["orders"], "groups": ["billing"]})
    history.event("assigned", 5, first, **HERE).handed(0, 0, 0, 10, **HERE).event("revoked", 18, **HERE)
    history.event("assigned", 20, 1, **THERE).event("revoked", 38, **THERE)
    history.event("assigned", 39, None if translated else 3, **HERE).handed(3, 0, 3, 50, **HERE)
    if translated:
        history.mirrored("translated", 40, group="billing", target_offset=3, mirror="dc2->dc1")
    for ms, offset in ((45, 3), (55, 4)):
        history.event("committed", ms, offset, **HERE)
    assert judged(history, tmp_path / "in order").anomaly("commit-ahead")[0].count == 0
    history.rows["end_offsets"].clear()
    found = judged(history.event("committed", 60, 6, **HERE), tmp_path / "ahead")
    assert found.anomaly("commit-ahead")[0].count == 1
