"""A verdict never depends on how rows are ordered, or cut into files: in any table, by either engine."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from pyspark import SparkContext

from fakes.histories import History, at, write_table
from fakes.in_process import InProcess
from fakes.kinds_of_anomalies import OF_SHARE_GROUPS, PLANTED
from fakes.mirror_histories import MIRROR_CASES
from kaput.analysis.pipeline import analyse
from kaput.evidence.findings import Findings
from kaput.evidence.reading import check
from kaput.scenario.anomalies import ANOMALIES
from spark.test_anomalies import CASES

IN_RICH = PLANTED | OF_SHARE_GROUPS


def _rich() -> History:
    """Every anomaly but those of transactions, mirrors and settings, and in every table rows of one moment
    whose order would tell another story.
    """
    history = History(
        producers=[{"topic": "orders", "acks": 1, "count": 2}],
        topics=[{"name": "orders", "partitions": 2, "replication-factor": 3}],
        groups={"billing": True, "audit": True, "queue": True},
        blocks={"queue": {"type": "share"}},
    )
    for seq in range(8):
        history.acked(seq % 2, seq // 2, seq, done_ns=at(20))
    history.sent(0, 4, 8, done_ns=at(20)).sent(1, 4, 9, done_ns=at(20)).sent(0, 5, None, "unknown")
    history.acked(0, 6, 8, leader_epoch=2, done_ns=at(40)).acked(1, 6, 9, leader_epoch=2, done_ns=at(40))
    history.acked(0, 7, 11, leader_epoch=2).acked(0, 8, 10, leader_epoch=2).stored(12, 0, 3).stored(13, 1, 77)
    history.stored(14, None, None, intact=False).sent(1, 7, None, "failed").stored(15, 1, 7).stored(16, 0, 5)
    # Both the ISR and the leader change within one ms, twice; the second leader was in the first one's ISR.
    history.led(1, 0, 0, [1, 2, 3]).led(1, 0, 30, [1, 2], kind="isr").led(2, 1, 30, [2, 3])
    history.led(2, 1, 30, [2], kind="isr").led(-1, 2, 35, [2]).led(2, 3, 35, [2])
    history.fault(1, 25, 45).fault(2, 25, 50, fault="pause")
    for broker in (3, 2):
        history.add("cluster_events", kind="stopped", broker=broker, at_ns=at(60), source="history")
    history.stores = {"local": True, "far": False}
    for seq, stores in ((9, ["local"]), (10, ["far", "local"]), (11, ["far"]), (12, ["local"])):
        history.sent(0, seq, None, "kept")
        for store in stores:
            history.kept(0, seq, store, in_doubt=seq == 10)
    for offset, replay in ((17, 1), (18, 2)):
        history.stored(offset, 0, 10).replayed(0, 10, 90, "far", replay=replay)
    history.stored(19, 0, 9).replayed(0, 9, 90).add("left_in_store", store="local", producer=0, seq=12)
    history.sent(0, 13, None, "kept").kept(0, 13).sent(1, 8, None, "refused")
    for group in ("billing", "audit"):
        _read(history, group)
    _share(history)
    return history.read_to_end()


def _read(history: History, group: str) -> None:
    """Two polls of one moment each, commits and changes of assignment of one moment."""
    stored = [row for row in history.rows["log"] if row["intact"]]
    for member in ("m1", "m2"):
        history.event("assigned", 5, 0, group=group, member=member)
    history.handed(8, 0, 4, 45, group=group)  # and overwritten later
    for row in stored[:7] + stored[5:6]:
        history.handed(row["offset"], row["producer"], row["seq"], 50, group=group)
    for row in stored[9:12] + stored[2:3]:
        history.handed(row["offset"], row["producer"], row["seq"], 60, group=group)
    history.handed(4, 1, 66, 60, group=group).handed(4, 0, 66, 60, group=group)
    history.handed(14, None, None, 60, group=group, intact=False)
    for kind in ("revoked", "assigned", "lost"):
        history.event(kind, 70, group=group)
    history.event("left", 70, group=group, topic=None, partition=None)
    for offset in (12, 3, 9):
        for member in ("m1", "m2"):
            history.event("committed", 70, offset, group=group, member=member)
    history.event("lost", 75, group=group, member="m2")
    history.handed(12, 0, 3, 80, group=group).handed(13, 1, 77, 80, group=group, member="m2")


def _share(history: History) -> None:
    """Every anomaly of share groups; asks and answers of one moment."""
    for member in ("m1", "m2"):
        who = {"group": "queue", "member": member}
        for offset, count in ((0, 1), (1, 6), (2, 1)):
            history.shared("acquired", offset, 90, count, **who)
        history.shared("accepting", 0, 91, **who).shared("accepted", 0, 91, **who)
        history.shared("releasing", 2, 91, **who).shared("released", 2, 91, **who)
    history.shared("acquired", 0, 95, 2, group="queue")


def _judged(
    history: History, path: Path, spark: SparkContext | InProcess, shuffle: random.Random | None
) -> Findings:
    folder = history.write(path)
    if shuffle is not None:
        for table, rows in history.rows.items():
            shuffled = shuffle.sample(rows, len(rows))
            shutil.rmtree(folder.table(table), ignore_errors=True)
            files = shuffle.choice([1, 2, 5])
            for file in range(files if rows else 0):
                write_table(folder, table, shuffled[file::files], f"part-{file}")
            if not rows and table in ("sends", "log"):
                write_table(folder, table, [])
    return analyse(check(folder), spark)


@pytest.mark.parametrize(("seed", "engine"), [(0, "spark"), (1, "played"), (2, "played")])
def test_rows_in_any_order_and_any_files_give_the_same_findings(
    seed: int, engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """findings.json is the same to the last letter, by either engine."""
    history = _rich()
    expected = _judged(history, tmp_path / "as-written" / "run", InProcess(), None)
    assert {anomaly.name for anomaly in expected.anomalies if anomaly.count} == IN_RICH
    spark = request.getfixturevalue(engine)
    found = _judged(history, tmp_path / "shuffled" / "run", spark, random.Random(seed))
    assert found.to_json() == expected.to_json()


@pytest.mark.parametrize("name", sorted(set(ANOMALIES) - IN_RICH))
def test_findings_of_other_anomalies_do_not_depend_on_row_order(
    name: str, tmp_path: Path, played: InProcess
) -> None:
    """Each in a history of its own."""
    make = (CASES | MIRROR_CASES)[name][0]
    expected = _judged(make().read_to_end(), tmp_path / "as-written" / "run", played, None)
    assert any(anomaly.count for anomaly in expected.anomaly(name))
    for seed in range(2):
        found = _judged(
            make().read_to_end(), tmp_path / f"shuffled-{seed}" / "run", played, random.Random(seed)
        )
        assert found.to_json() == expected.to_json()


@pytest.mark.parametrize("backwards", [False, True])
def test_records_of_one_poll_are_sorted_by_offset(backwards: bool, tmp_path: Path, played: InProcess) -> None:
    """Rows of one member, partition and moment are one poll: written backwards, it is no step back."""
    history = History(groups={"billing": True})
    for seq in range(5):
        history.acked(0, seq, seq)
    for seq in reversed(range(5)) if backwards else range(5):
        history.handed(seq, 0, seq, 10)
    findings = analyse(check(history.read_to_end().write(tmp_path)), played)
    assert {a.name: a.count for a in findings.anomalies if a.count} == {}
    assert findings.verdict == "held", findings.reasons
