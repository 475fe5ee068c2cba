"""Mirrors between clusters: what counts as whose copy, each anomaly, how it is ruled, RPO and RTO."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fakes.histories import History, at
from fakes.in_process import InProcess
from fakes.judging import findings_in, judged
from fakes.kinds_of_anomalies import OF_MIRRORS
from fakes.mirror_histories import (
    HERE,
    MIRROR_CASES,
    THERE,
    looped,
    mirrored_twice,
    sent_and_mirrored,
    translated_behind,
    two_clusters,
)
from kaput.analysis import document
from kaput.analysis.engine.pieces import gathered
from kaput.analysis.facts import inputs
from kaput.analysis.pipeline import count
from kaput.analysis.questions import questions
from kaput.analysis.run import plan
from kaput.evidence.findings import Anomaly, Findings
from kaput.evidence.reading import check


def _found(findings: Findings) -> dict[str, int]:
    return {a.name: a.count for a in findings.anomalies if a.count}


def _one(findings: Findings, name: str) -> Anomaly:
    (anomaly,) = findings.anomaly(name)
    return anomaly


@pytest.mark.parametrize("name", MIRROR_CASES)
def test_a_history_shows_its_anomaly(name: str, tmp_path: Path) -> None:
    """Exactly so often, with its story, and nothing else."""
    history, counts, story = MIRROR_CASES[name]
    findings = judged(history(), tmp_path)
    assert _found(findings) == counts
    assert findings.anomaly(name)[0].examples[0].story == story


def test_every_anomaly_of_mirrors_has_its_history() -> None:
    assert set(MIRROR_CASES) == OF_MIRRORS


def test_mirrored_record_is_neither_duplicate_nor_phantom(tmp_path: Path) -> None:
    """Neither stored twice nor sent by nobody, and one that a group read in the other cluster was seen."""
    history = sent_and_mirrored(two_clusters(groups=["billing"]), 0, 1, 2)
    history.groups, history.drained = {"billing": True}, {"dc1->dc2": True}
    history.handed(0, 0, 0, 10, **HERE).mirrored("translated", 20, group="billing", target_offset=1)
    history.handed(1, 0, 1, 30, **THERE).handed(2, 0, 2, 31, **THERE)
    findings = judged(history, tmp_path)
    assert findings.verdict == "held", findings.reasons
    assert _found(findings) == {}
    assert [(f.stored, f.count) for f in findings.fates] == [("1", 3)]
    assert [(f.stored, f.delivered, f.count) for f in findings.groups[0].fates] == [("1", "1", 3)]
    assert findings.high_watermark_arithmetic.difference == 0
    (mirror,) = findings.mirrors
    assert (mirror.acknowledged, mirror.mirrored, mirror.unmirrored, mirror.rpo_s) == (3, 3, 0, 0)


def test_the_same_topic_in_two_clusters_is_two_topics(tmp_path: Path) -> None:
    """What is sent to the other cluster is at home there, and the same offsets contradict nothing."""
    history = two_clusters()
    history.mirrors = []
    history.topics = [{"name": "orders"}, {"name": "orders", "cluster": "dc2"}]
    for seq in range(4):
        where = HERE if seq % 2 else THERE
        history.sent(0, seq, seq // 2, **where).stored(seq // 2, 0, seq, **where)
    findings = judged(history, tmp_path)
    assert findings.verdict == "held", findings.reasons
    assert _found(findings) == {} and findings.totals.stored_messages == 4


def test_a_message_that_only_the_other_cluster_has_is_lost(tmp_path: Path) -> None:
    """It is acknowledged at home and stored nowhere there; somebody who was delivered it has not seen a
    message that no longer exists.
    """
    history = sent_and_mirrored(two_clusters(), 0, 1, 2)
    history.rows["log"] = [r for r in history.rows["log"] if (r["cluster"], r["seq"]) != ("dc1", 1)]
    history.groups = {"billing": False}
    assert _found(judged(history.handed(1, 0, 1, 10, **THERE), tmp_path)) == {"lost": 1}


def test_a_replay_that_stores_a_message_elsewhere_moves_its_home(tmp_path: Path) -> None:
    """A store kept it when dc1 was away, and dc2 took it."""
    history = sent_and_mirrored(two_clusters(), 0, 1, 2)
    history.stores, history.drained = {"local": True}, {"dc1->dc2": True}
    history.sent(0, 3, None, "kept", **HERE).kept(0, 3, **HERE)
    history.replayed(0, 3, 90, **THERE).stored(3, 0, 3, **THERE)
    findings = judged(history, tmp_path)
    assert _found(findings) == {}
    assert findings.kept is not None and findings.kept.delivered_later == 1


def test_exactly_once_mirror_may_not_duplicate(tmp_path: Path) -> None:
    """Without it a second copy is permitted."""
    permitted = _one(judged(mirrored_twice(), tmp_path / "once"), "mirrored-twice").permitted
    history = mirrored_twice()
    history.mirrors[0]["exactly-once"] = True
    findings = judged(history, tmp_path / "exactly")
    assert (permitted, _one(findings, "mirrored-twice").permitted) == (1, 0)
    assert findings.verdict == "violated" and "exactly-once" in " ".join(findings.reasons)


def test_aborted_copies_of_an_exactly_once_mirror_do_not_count(tmp_path: Path) -> None:
    """It had copied messages 1 and 2, and its transaction was aborted; then it copied all again, in order."""
    history = sent_and_mirrored(two_clusters(**{"exactly-once": True}), sent=3)
    for offset, seq in enumerate((1, 2)):
        history.stored(offset, 0, seq, visible=False, **THERE)
    for offset, seq in enumerate((0, 1, 2), start=3):
        history.stored(offset, 0, seq, **THERE)
    history.drained = {"dc1->dc2": True}
    findings = judged(history, tmp_path)
    assert _found(findings) == {}
    assert findings.verdict == "held", findings.reasons


def test_looped_record_is_a_violation_under_the_default_policy(tmp_path: Path) -> None:
    """With the identity policy a mirror cannot know."""
    assert _one(judged(looped(), tmp_path / "identity"), "looped").permitted == 1
    history = looped()
    history.mirrors[1] |= {"policy": "default"}
    history.rows["log"][-1] |= {"topic": "dc2.orders", "offset": 0}
    findings = judged(history, tmp_path / "default")
    assert (_one(findings, "looped").count, _one(findings, "looped").permitted) == (1, 0)


def test_stopped_mirror_owes_only_records_it_had_passed(tmp_path: Path) -> None:
    """But what it had passed already: RPO in messages and in seconds is of both."""
    history = sent_and_mirrored(two_clusters(), 1, sent=5)
    history.mirrored("started", 0).mirrored("drained", 8, source_offset=2).mirrored("stopped", 2_005)
    findings = judged(history, tmp_path)
    unmirrored, (mirror,) = _one(findings, "unmirrored"), findings.mirrors
    assert unmirrored.causes == {"unexplained": 1, "stopped": 3} and unmirrored.permitted == 3
    assert (mirror.unmirrored, mirror.ended, mirror.ended_ns) == (4, "stopped", at(2_005))
    assert mirror.rpo_s == 2.004 and mirror.unmirrored_since_ns == at(1)


def test_acks_after_the_mirror_ended_are_not_in_the_rpo(tmp_path: Path) -> None:
    """The target lacks it; the mirror had ended, though it had everything then."""
    history = sent_and_mirrored(two_clusters(), 0, sent=6).mirrored("started", 0).mirrored("stopped", 3.5)
    history.drained = {"dc1->dc2": True}
    findings = judged(history, tmp_path)
    (mirror,) = findings.mirrors
    assert mirror.causes == {"after-end": 3, "unexplained": 2}
    assert (mirror.unmirrored, mirror.rpo_messages, mirror.unmirrored_since_ns) == (5, 2, at(2))


def test_group_moves_at_its_first_assignment_in_the_target(tmp_path: Path) -> None:
    """What it was delivered between that and the mirror's row about it is not read again."""
    history = translated_behind()
    history.event("assigned", 1, **HERE).event("assigned", 20, **THERE).event("assigned", 45, **THERE)
    history.rows["mirror"][-1]["at_ns"] = at(50)
    assert _found(judged(history, tmp_path)) == {"translated-behind": 1}


@pytest.mark.parametrize(
    "how", ["fault", "killed", "retention", "behind", "unread", "by-plan"], ids=lambda how: how
)
def test_causes_of_unmirrored_records(how: str, tmp_path: Path) -> None:
    """A fault, the end of the mirror, the source's retention; else nothing explains it yet."""
    history = sent_and_mirrored(two_clusters(start="by-plan" if how == "by-plan" else "at-once"), 0, 2)
    if how == "fault":
        history.fault(1, 2, 5)
    if how == "killed":
        history.mirrored("started", 0).mirrored("killed", 5)
    if how == "retention":
        history.rows["log"] = [r for r in history.rows["log"] if (r["cluster"], r["seq"]) != ("dc1", 1)]
        history.drained = {"dc1->dc2": True}
    history.read_to_end()
    if how == "unread":
        history.rows["end_offsets"][-1]["drained_to"] = 0
    findings = findings_in(history.write(tmp_path))
    expected = {
        "fault": ({"fault": 1}, 1),
        "killed": ({"fault": 1}, 1),
        "retention": ({"not-retained": 1}, 1),
        "behind": ({"behind": 1}, 0),
        "unread": ({}, 0),
        "by-plan": ({}, 0),
    }
    unmirrored = _one(findings, "unmirrored")
    assert (unmirrored.causes, unmirrored.permitted) == expected[how]
    assert (findings.verdict == "inconclusive") == (how in ("behind", "unread")), findings.reasons


def _overtaken(start: int) -> History:
    """Of six messages dc2 has the first and the last two; dc1 has those from offset `start` on."""
    history = sent_and_mirrored(two_clusters(groups=["billing"]), 0, 4, 5, sent=6)
    log = history.rows["log"]
    history.rows["log"] = [r for r in log if r["cluster"] == "dc2" or r["offset"] >= start]
    history.groups, history.drained = {"billing": True}, {"dc1->dc2": True}
    for seq in range(6):
        history.handed(seq, 0, seq, 10 + seq, **HERE)
    history.mirrored("drained", 40, source_offset=6).read_to_end()
    for row in history.rows["end_offsets"]:
        row["start_offset"] = start if row["cluster"] == "dc1" else 0
    return history


def test_deletion_ahead_of_the_mirror_is_permitted_with_times(tmp_path: Path) -> None:
    """Messages 1 to 3 were deleted before it came to them: permitted, and told since when."""
    history = _overtaken(4).deleted("dc1:orders", 30)
    findings = findings_in(history.write(tmp_path))
    unmirrored, (mirror,) = _one(findings, "unmirrored"), findings.mirrors
    assert (unmirrored.count, unmirrored.permitted, unmirrored.causes) == (3, 3, {"deleted": 3})
    assert (mirror.deleted_first_ns, mirror.deleted_last_ns) == (at(2), at(4))
    assert _found(findings) == {"lost": 4, "removed": 4, "unmirrored": 3, "vanished": 3}
    assert findings.verdict == "held", findings.reasons


def test_deletion_does_not_excuse_later_unmirrored_records(tmp_path: Path) -> None:
    """Message 3 is in dc1 still, and the mirror passed it; where no step deleted the rest, it is in doubt."""
    findings = findings_in(_overtaken(3).write(tmp_path))
    unmirrored, (mirror,) = _one(findings, "unmirrored"), findings.mirrors
    assert unmirrored.causes == {"deleted": 2, "unexplained": 1} and unmirrored.permitted == 2
    assert (mirror.deleted_first_ns, mirror.deleted_last_ns) == (at(2), at(3))
    assert _one(findings, "lost").permitted == 0 and findings.verdict == "violated"


def test_records_after_the_mirror_ended_are_not_blamed_on_deletion(tmp_path: Path) -> None:
    """It would not have copied what was acknowledged after its end, whatever was deleted."""
    history = _overtaken(4).mirrored("started", 0).mirrored("stopped", 3.5)
    findings = findings_in(history.write(tmp_path))
    assert _one(findings, "unmirrored").causes == {"deleted": 2, "after-end": 1}


def _compacted(
    *copies: int, key: int | str = 2, policy: str = "compact", begin: int = 2, to: int = 0, **mirror: Any
) -> History:
    """Of four messages with two keys in turn, dc1 has those from `begin` on, and dc2 those `copies`: at the
    offsets that they have in dc1, or one after the other from `to` on.
    """
    history = sent_and_mirrored(two_clusters(groups=["billing"], **mirror), sent=4)
    history.topics[0]["config"], history.producers[0]["key"] = {"cleanup.policy": policy}, key
    history.rows["log"] = [r for r in history.rows["log"] if r["offset"] >= begin]
    for offset, seq in enumerate(copies, start=to):
        history.stored(offset if begin == 0 else seq, 0, seq, **THERE)
    history.drained = {"dc1->dc2": True}
    return history.mirrored("drained", 40, source_offset=4)


def _had_message_0(history: History) -> History:
    """Of which a group was delivered message 0 in dc2."""
    history.groups = {"billing": True}
    return history.handed(0, 0, 0, 10, **THERE)


@pytest.mark.parametrize(
    ("history", "removed", "causes"),
    [
        (_compacted(2, 3), 2, {}),
        (_compacted(3), 1, {"not-retained": 1, "unexplained": 1}),
        (_compacted(1, 2), 1, {"unexplained": 1}),
        (_compacted(3, key="seq"), 0, {"not-retained": 2, "unexplained": 1}),
        (_compacted(2, 3, policy="delete"), 0, {"not-retained": 2}),
        (
            _compacted(3).sent(0, 4, 4, **THERE).stored(4, 0, 4, **THERE),
            1,
            {"not-retained": 1, "maybe-removed": 1},
        ),
        (_compacted(2, 3, begin=0), 0, {"unexplained": 2}),
        (_compacted(2, 3, begin=0, to=1), 0, {"maybe-removed": 2}),
        (_compacted(2, 3, begin=0, to=2), 2, {}),
        (_compacted(2, 3, begin=0, to=2, **{"exactly-once": True}), 0, {"maybe-removed": 2}),
        (_had_message_0(_compacted(2, 3, begin=0, to=1)), 1, {"maybe-removed": 1}),
    ],
    ids=[
        "all",
        "the last of a key",
        "an earlier one",
        "keys of their own",
        "not compacted",
        "an own later one",
        "no gap",
        "a gap that is too small",
        "a gap",
        "a gap that may be of transactions",
        "one that a group had",
    ],
)
def test_what_the_target_compacted_is_not_unmirrored(
    history: History, removed: int, causes: dict[str, int], tmp_path: Path
) -> None:
    """A later message of the same key is there, and a gap where it was; the last one of a key has to be."""
    findings = judged(history, tmp_path)
    (mirror,) = findings.mirrors
    assert (mirror.removed, mirror.causes, mirror.rpo_messages) == (removed, causes, sum(causes.values()))
    assert mirror.acknowledged == mirror.mirrored + mirror.removed + mirror.unmirrored
    ruled = _one(findings, "unmirrored")
    assert (ruled.permitted, ruled.unclear) == (causes.get("not-retained", 0), causes.get("maybe-removed", 0))


def test_what_the_retention_of_the_target_removed_is_not_unmirrored(tmp_path: Path) -> None:
    """Its log begins later than the source's: a group had message 1 there; of message 2 it is not known."""
    history = sent_and_mirrored(two_clusters(groups=["billing"]), sent=5)
    history.groups, history.drained = {"billing": True}, {"dc1->dc2": True}
    history.stored(3, 0, 3, **THERE).stored(4, 0, 4, **THERE).mirrored("drained", 40, source_offset=5)
    for seq in (0, 1, 3, 4):
        history.handed(seq, 0, seq, 10 + seq, **THERE)
    history.read_to_end()
    for row in history.rows["end_offsets"]:
        row["start_offset"] = 3 if row["cluster"] == "dc2" else 0
    findings = findings_in(history.write(tmp_path))
    (mirror,) = findings.mirrors
    assert (mirror.mirrored, mirror.removed, mirror.causes) == (2, 2, {"maybe-removed": 1})
    assert _one(findings, "unmirrored").unclear == 1


def _failed_back(**mirror: Any) -> History:
    """dc1 acknowledged three messages, of which dc2 has the first; the group had read that, went to dc2, and
    came back behind all three, at a fourth, which was sent to dc2 and copied back.
    """
    history = sent_and_mirrored(two_clusters(groups=["billing"], **mirror), 0)
    history.groups = {"billing": True}
    history.mirrors.append({"from": "dc2", "to": "dc1", "topics": ["orders"], "groups": ["billing"]})
    history.sent(0, 3, 1, **THERE).stored(1, 0, 3, **THERE).stored(3, 0, 3, **HERE)
    history.handed(0, 0, 0, 10, **HERE).mirrored("translated", 20, group="billing", target_offset=1)
    history.handed(1, 0, 3, 30, **THERE)
    back = {"group": "billing", "target_offset": 3, "mirror": "dc2->dc1"}
    history.event("assigned", 5, 0, **HERE).event("revoked", 18, **HERE)
    history.event("assigned", 20, 1, **THERE).event("revoked", 38, **THERE).event("assigned", 39, 3, **HERE)
    return history.mirrored("translated", 40, **back).handed(3, 0, 3, 50, **HERE)


@pytest.mark.parametrize("how", ["stopped", "killed", "unexplained", "behind"])
def test_records_skipped_on_failback_are_ruled_as_unmirrored(how: str, tmp_path: Path) -> None:
    """Skipped and unseen are the two messages that dc2 never had: permitted where that is."""
    history = _failed_back().mirrored("started", 0)
    if how in ("stopped", "killed"):
        history.mirrored(how, 15)
    if how == "unexplained":
        history.mirrored("drained", 15, source_offset=3)
    findings = judged(history, tmp_path)
    ruled = {"unexplained": "violated", "behind": "inconclusive"}.get(how, "held")
    assert findings.verdict == ruled, findings.reasons
    assert _found(findings) == {
        **{"unmirrored": 2, "unseen": 2, "translated-ahead": 2},
        "translated-behind": 1,
    }
    permitted = [_one(findings, name).permitted for name in ("unmirrored", "unseen", "translated-ahead")]
    assert permitted == [2 if ruled == "held" else 0] * 3
    if ruled == "held":
        assert (
            sum("the cluster that the group came back from never had them" in r for r in findings.reasons)
            == 2
        )


@pytest.mark.parametrize("how", ["killed", "unexplained"])
def test_records_skipped_on_failback_may_have_been_compacted(how: str, tmp_path: Path) -> None:
    """Where dc2's copy is compacted, whether it had them is not known: neither permitted nor forbidden."""
    history = _failed_back().mirrored("started", 0)
    history.topics[0]["config"] = {"cleanup.policy": "compact"}
    if how == "killed":
        history.mirrored("killed", 15)
    else:
        history.mirrored("drained", 15, source_offset=3)
    skipped = _one(judged(history, tmp_path), "translated-ahead")
    assert (skipped.count, skipped.permitted, skipped.unclear) == (2, 0, 2)


def test_mirrored_record_skipped_on_failback_is_a_violation(tmp_path: Path) -> None:
    """Message 1 was in dc2, and the group was given it nowhere: skipped, and never permitted."""
    history = _failed_back().mirrored("started", 0).mirrored("stopped", 15).stored(2, 0, 1, **THERE)
    findings = judged(history, tmp_path)
    assert findings.verdict == "violated"
    assert [
        (_one(findings, n).count, _one(findings, n).permitted) for n in ("unseen", "translated-ahead")
    ] == [
        (2, 1),
        (2, 1),
    ]


def test_failback_with_an_unread_target_is_inconclusive(tmp_path: Path) -> None:
    """dc2 may have had them."""
    history = _failed_back().mirrored("started", 0).mirrored("stopped", 15).read_to_end()
    (row,) = [row for row in history.rows["end_offsets"] if row["cluster"] == "dc2"]
    row["drained_to"] = 1
    findings = findings_in(history.write(tmp_path))
    assert findings.verdict == "inconclusive", findings.reasons
    assert "was not read to its end" in " ".join(findings.reasons)


def test_unmirrored_record_unseen_by_a_moved_group_is_permitted(tmp_path: Path) -> None:
    """It is unseen: the group moved to a cluster that does not have it."""
    history = sent_and_mirrored(two_clusters(groups=["billing"]), 0, 1)
    history.groups = {"billing": True}
    history.mirrored("started", 0).mirrored("stopped", 9)
    history.handed(0, 0, 0, 10, **HERE).mirrored("translated", 20, group="billing", target_offset=1)
    findings = judged(history.handed(1, 0, 1, 30, **THERE), tmp_path)
    assert _found(findings) == {"unmirrored": 1, "unseen": 1}
    assert findings.anomaly("unseen")[0].permitted == 1 and findings.verdict == "held", findings.reasons


def _with_plan(history: History) -> History:
    steps = (("1 fence", 1_000, 1_200), ("2 move-producers", 1_200, 1_300), ("3 move-groups", 1_300, 1_500))
    for step, begin, end in steps:
        told = {"kind": step[2:], "outcome": "done", "proof": "as it should be"}
        history.add("plan", step=step, started_ns=at(begin), ended_ns=at(end), **told)
    more = {"attempt_ns": at(2_000), "done_ns": at(2_700)}
    return history.sent(0, 3, 3, **THERE, **more).stored(3, 0, 3, **THERE).handed(3, 0, 3, 2_800, **THERE)


def test_rto_of_writes_and_reads(tmp_path: Path) -> None:
    """From the last acknowledgement in dc1 before it was fenced to the first in dc2; deliveries likewise."""
    history = _with_plan(translated_behind())
    for row in history.rows["deliveries"]:
        row["polled_ns"] += at(2_000) - at(0) if row["cluster"] == "dc2" and row["seq"] < 3 else 0
    findings = judged(history, tmp_path)
    plan = findings.plan
    assert plan is not None and (plan.source, plan.target) == ("dc1", "dc2")
    assert [(s.kind, s.seconds) for s in plan.steps] == [
        ("fence", 0.2),
        ("move-producers", 0.1),
        ("move-groups", 0.2),
    ]
    assert plan.rto_writes is not None and plan.rto_writes.seconds == pytest.approx(2.697)  # 3 ms to 2,700 ms
    (group,) = plan.groups
    assert group.rto is not None and group.rto.seconds == pytest.approx(2.02)  # 11 ms to 2,031 ms
    assert (group.read_twice, group.skipped) == (1, 0)


def test_rto_of_writes_starts_at_the_fault(tmp_path: Path) -> None:
    """What was acknowledged after it, in the cluster that was left, shortens nothing."""
    history = _with_plan(translated_behind()).fault(1, 2.5, 900)
    plan = judged(history, tmp_path).plan
    assert plan is not None and plan.rto_writes is not None
    assert plan.rto_writes.seconds == pytest.approx(2.698)  # 2 ms to 2,700 ms


def test_fault_on_a_mirror_is_not_where_the_rto_starts(tmp_path: Path) -> None:
    """The source goes on acknowledging until it is fenced."""
    history = _with_plan(translated_behind()).fault(1, 2.5, 900, fault="bandwidth", target="mirror dc1->dc2")
    history.rows["faults"][0]["brokers"] = []
    plan = judged(history, tmp_path).plan
    assert plan is not None and plan.rto_writes is not None
    assert plan.rto_writes.seconds == pytest.approx(2.697)  # 3 ms to 2,700 ms


def _rewritten(history: History, path: Path, change: Callable[[pa.Table], pa.Table], **how: Any) -> str:
    """What is found where each file is changed, and written without what tells of its values."""
    folder = history.write(path / "run")
    for file in path.glob("run/evidence/*/*.parquet"):
        pq.write_table(change(pq.read_table(file)), file, write_statistics=False, **how)
    return findings_in(folder).to_json()


def test_evidence_without_a_cluster_column_is_accepted(tmp_path: Path) -> None:
    """Without the column, or with one that has no type, everything is as with nulls."""
    history = History(groups={"billing": True}).acked(0, 0, 0).sent(0, 1, 1).handed(0, 0, 0, 10).read_to_end()

    def without_type(table: pa.Table) -> pa.Table:
        at = table.column_names.index("cluster")
        return table.set_column(at, "cluster", pa.nulls(len(table)))

    expected = _rewritten(history, tmp_path / "nulls", lambda table: table)
    assert '"orders"' in expected and "lost" in expected
    assert _rewritten(history, tmp_path / "without", lambda table: table.drop_columns("cluster")) == expected
    assert _rewritten(history, tmp_path / "untyped", without_type) == expected


def test_clusters_may_be_written_in_any_way(tmp_path: Path) -> None:
    """Large strings, dictionaries, row groups of few rows that have several clusters."""
    history = translated_behind().read_to_end()

    def otherwise(table: pa.Table) -> pa.Table:
        texts = [name for name in table.column_names if pa.types.is_string(table[name].type)]
        for number, name in enumerate(texts):
            column = table[name].cast(pa.large_string())
            column = column.dictionary_encode() if number % 2 else column
            table = table.set_column(table.column_names.index(name), name, column)
        return table

    expected = _rewritten(history, tmp_path / "plain", lambda table: table)
    assert "dc2:orders" in expected
    assert _rewritten(history, tmp_path / "otherwise", otherwise, row_group_size=2) == expected


@pytest.mark.parametrize(("cluster", "lag"), [("dc1", 7), ("dc2", None)])
def test_a_mirror_has_no_lag_where_producers_write_to_its_copies(
    cluster: str, lag: int | None, tmp_path: Path
) -> None:
    """All that arrives in the target counts as mirrored in a sample."""
    history = sent_and_mirrored(two_clusters(), 0, 1, 2)
    history.producers = [{"topic": "orders", "acks": "all", "cluster": cluster}]
    history.mirrored("lag", 15, mirror="dc2->dc9", source_offset=9, target_offset=2, value=9.0)  # not ours
    for ms, value in ((10, 3.0), (20, 7.0)):
        history.mirrored("lag", ms, source_offset=9, target_offset=2, value=value)
    assert judged(history, tmp_path).mirrors[0].lag_max == lag


def test_a_mirror_has_no_lag_once_producers_were_moved_to_its_copies(tmp_path: Path) -> None:
    history = sent_and_mirrored(two_clusters(), 0, 1, 2)
    for ms, value in ((10, 3.0), (20, 7.0)):
        history.mirrored("lag", ms, source_offset=9, target_offset=2, value=value)
    step = {"step": "move-producers", "kind": "move-producers", "outcome": "done", "proof": "1 moved"}
    history.add("plan", started_ns=at(15), ended_ns=at(16), **step)
    assert judged(history, tmp_path).mirrors[0].lag_max == 3


def _stopped_early(policy: str, copied: Sequence[int], sent: int) -> History:
    """The mirror was stopped 3.2 ms after message 0, and one more is acknowledged each ms."""
    history = sent_and_mirrored(two_clusters(), sent=sent)
    history.topics[0]["config"], history.producers[0]["key"] = {"cleanup.policy": policy}, 2
    for row in history.rows["sends"]:
        row |= {"attempt_ns": at(row["seq"] - 0.5), "done_ns": at(row["seq"])}
    for seq in copied:
        history.stored(seq, 0, seq, **THERE)
    return history.mirrored("started", 0).mirrored("stopped", 3.2)


@pytest.mark.parametrize(
    ("policy", "copied", "paths", "timed", "removed", "passed"),
    [
        ("compact", [0, 3], 1, True, 1, 2),  # 1 and 2 may have been compacted, and 1 was
        ("compact", [0], 1, True, 0, 3),
        ("compact", [0, 3], 2, True, 1, 302),  # what the first mirror did not copy, the second may have
        ("delete", [0, 3], 1, True, 0, 0),
        ("delete", [0, 3], 1, False, 0, 0),
    ],
)
def test_a_mirror_that_stopped_early_passes_on_little(
    policy: str, copied: list[int], paths: int, timed: bool, removed: int, passed: int, tmp_path: Path
) -> None:
    """Of 300 messages that were attempted after its end, none is looked at one by one."""
    history = _stopped_early(policy, copied, sent=304)
    if paths > 1:
        history.clusters["dc3"] = {}
        history.mirrors.append({"from": "dc3", "to": "dc2", "topics": ["orders"]})
    for row in history.rows["sends"]:
        row["done_ns"] = row["done_ns"] if timed else None
    evidence = check(history.read_to_end().write(tmp_path))
    run = count(InProcess(), inputs.read(evidence), plan(evidence), "none")  # type: ignore[arg-type]
    pieces = [piece for of_part in run.totals.pieces.values() for piece in of_part]
    table = gathered(pieces, {"missing_copies": pl.DataFrame()})["missing_copies"]
    mirror = document.findings(run, questions()).mirrors[0]
    lacking = {"after-end": 300, "stopped": 4 - len(copied) - removed}
    assert (mirror.causes, mirror.removed, table.height) == (lacking, removed, passed)


def test_forbidden_messages_are_shown_first(tmp_path: Path) -> None:
    """Also if they are found in a later stage than the others, or come after them."""
    history = _stopped_early("compact", [0, 2, 3], sent=20).mirrored("drained", 3, source_offset=3)
    history.producers[0]["key"] = 3
    (found,) = judged(history, tmp_path / "one").anomaly("unmirrored")
    assert (found.causes, found.permitted) == ({"after-end": 16, "unexplained": 1}, 16)
    assert [one.seq for one in found.examples] == [1, *range(4, 13)]
    history = sent_and_mirrored(two_clusters(), *range(3), *range(4, 15), *range(16, 20), sent=40)
    history.mirrored("started", 0).mirrored("drained", 17, source_offset=20).mirrored("stopped", 18)
    (found,) = judged(history, tmp_path / "two").anomaly("unmirrored")
    assert found.causes["unexplained"] == 2 and [one.seq for one in found.examples[:2]] == [3, 15]
