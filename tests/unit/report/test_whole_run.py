"""What the page of a whole run shows: cause, rebalances, members, lag, partitions, the deposed leader."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fakes.isolation import LOST, judged
from kaput.evidence.findings import Findings
from kaput.evidence.findings_parts import MeanRates, Slump
from kaput.evidence.folder import RunFolder
from kaput.report.charts.lines import _with_gaps
from kaput.report.charts.rows import timeline_rows
from kaput.report.run_report import to_html
from kaput.report.sections import JudgedRun, groups, leaders
from kaput.report.sections.summary import faults_in_a_line, head
from kaput.report.timeline import bars
from kaput.report.timeline.bars import Bar, TimelineClock, event_marks
from kaput.report.timeline.reading import LagPoint, TimelineData, read_timeline

Run = tuple[RunFolder, Findings]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The leader that is cut off while a member dies."""
    return judged(tmp_path_factory.mktemp("isolation"))


@pytest.fixture(scope="module")
def timeline(run: Run) -> TimelineData:
    found = read_timeline(*run)
    assert found is not None
    return found


def test_the_cause_is_a_sentence_with_its_times(run: Run) -> None:
    """Which broker acknowledged the lost messages, until when, and whose log became the partition's."""
    top = head(JudgedRun(run[1]))
    assert top.why == (
        "Broker 1 alone acknowledged every message lost in orders/0, until 45.0 s; broker 2 was "
        "elected at 24.0 s, had none of them, and its log became the partition's."
    )
    assert "at 15.0 s for 30.0 s: confirmed" in top.done


def test_restarted_leader_is_named_in_the_cause(run: Run) -> None:
    """And of what several changes lost, each its part."""
    (change,) = [one for one in run[1].leader_changes if one.lost]
    again = change.model_copy(update={"leader": 1, "lost": LOST // 2})
    two = run[1].model_copy(update={"leader_changes": [again, change.model_copy(update={"lost": 3})]})
    assert head(JudgedRun(two)).why == (
        f"Broker 1 came back as leader of orders/0 without {LOST // 2:,} of the messages lost. "
        "1 more leader change lost 3."
    )


def test_a_violated_run_begins_with_its_first_reason(findings: Findings) -> None:
    """What was forbidden comes before its cause."""
    violated = findings.model_copy(update={"verdict": "violated", "reasons": ["Two were lost.", "More."]})
    assert head(JudgedRun(violated)).why.startswith("Two were lost.")


def test_the_brokers_of_a_fault_are_named_once(findings: Findings) -> None:
    """`broker 3`, not `broker 3 (broker 3)`; without its time where that is not about this load."""
    fault = findings.faults[0].model_copy(update={"target": "broker 1", "brokers": [1], "effective_ns": 5})
    one = findings.model_copy(
        update={"faults": [fault], "run": findings.run.model_copy(update={"started_ns": 10**18})}
    )
    assert faults_in_a_line(JudgedRun(one)) == f"{fault.fault} of broker 1: confirmed"


@pytest.mark.parametrize(("lasted_s", "text"), [(2, " for 2.0 s"), (0, "")])
def test_a_change_that_stays_has_no_duration(findings: Findings, lasted_s: int, text: str) -> None:
    """It is over when it has taken effect."""
    at_ns = findings.run.started_ns + 3_700_000_000
    times = {"effective_ns": at_ns, "healed_ns": at_ns + lasted_s * 10**9}
    fault = findings.faults[0].model_copy(update={"target": "broker 1", "brokers": [1], **times})
    one = findings.model_copy(update={"faults": [fault]})
    assert faults_in_a_line(JudgedRun(one)) == f"{fault.fault} of broker 1 at 3.7 s{text}: confirmed"


def test_the_deposed_leader_has_a_line_of_its_own(timeline: TimelineData) -> None:
    """Below the partition that it led: two leaders at once are seen as two."""
    rows = {
        row: [bar for bar in timeline.leaders if bar.row == row] for row in ("orders/0", "orders/0 deposed")
    }
    assert [bar.text for bar in rows["orders/0"]] == ["broker 1, epoch 0", "broker 2, epoch 1"]
    (deposed,) = rows["orders/0 deposed"]
    assert deposed.text == "broker 1, deposed, acknowledged 525 more"
    assert (deposed.begin, deposed.end) == (24.0, pytest.approx(45, abs=0.1))


def test_a_deposed_broker_0_has_a_line_of_its_own_too(run: Run) -> None:
    (change,) = [one for one in run[1].leader_changes if one.two_leaders_ms]
    findings = run[1].model_copy(update={"leader_changes": [change.model_copy(update={"old_leader": 0})]})
    row = {"kind": "leader", "topic": "orders", "partition": 0, "at_ns": 0, "broker": None}
    events = [row | {"leader": 0, "leader_epoch": 0}]
    clock = TimelineClock(run[1].run.started_ns, 66.0)
    assert [bar.kind for bar in bars.leaders(events, findings, clock)][-1] == "broker 0"


@pytest.mark.parametrize(
    ("unfenced_s", "expected"),
    [(3, [("broker 1", 0, 2), ("no leader", 2, 3), ("broker 1", 3, 9)]),
     (5, [("broker 1", 0, 2), ("no leader", 2, 5), ("broker 1", 5, 9)])],
)  # fmt: skip
def test_broker_that_is_back_leads_from_its_first_unfencing_on(
    unfenced_s: int, expected: list[tuple[str, int, int]], run: Run
) -> None:
    """It registers as fenced once it is started; it is fenced again later, and leads nothing less."""
    of_broker = {"stopped": [2], "started": [3], "fenced": [4, 7], "unfenced": [unfenced_s, 8]}
    row = {"topic": None, "partition": None, "cluster": None, "broker": 1}
    events: list[dict[str, Any]] = [
        row | {"topic": "t", "partition": 0, "kind": "leader", "leader": 1, "leader_epoch": 0, "at_ns": 0},
        *(row | {"kind": kind, "at_ns": s * 10**9} for kind, times in of_broker.items() for s in times),
    ]
    found = bars.leaders(events, run[1], TimelineClock(0, 9.0))
    assert [(bar.kind, bar.begin, bar.end) for bar in found] == expected


def test_a_partition_of_which_only_isrs_are_recorded_has_no_leader_on_the_timeline(run: Run) -> None:
    """Nor has one of which only leaders are recorded an ISR."""
    row = {"topic": "t", "partition": 0, "at_ns": 0, "cluster": None, "broker": None, "leader_epoch": 0}
    isr = row | {"kind": "isr", "leader": None, "isr": [1, 2]}
    leader = row | {"kind": "leader", "leader": 1, "isr": None}
    clock = TimelineClock(0, 9.0)
    assert list(bars.leaders([isr], run[1], clock)) == []
    assert [(bar.row, bar.end, bar.text) for bar in bars.isrs([isr], clock)] == [("t/0", 9.0, "1, 2")]
    assert list(bars.isrs([leader], clock)) == []
    assert [(bar.row, bar.end, bar.text) for bar in bars.leaders([leader], run[1], clock)] == [
        ("t/0", 9.0, "broker 1, epoch 0")
    ]


def test_a_line_of_samples_ends_where_samples_are_missing() -> None:
    """None came from 3 to 12 s: the lag of 76 before that is no value of these seconds."""
    points = [
        LagPoint(at, "billing", lag) for at, lag in ((1.0, 260), (2.0, 80), (3.0, 76), (12.0, 143), (13.0, 9))
    ]
    rows = [(row["at"], row["lag"]) for row in _with_gaps(points)]
    assert rows == [(1.0, 260), (2.0, 80), (3.0, 76), (4.0, None), (12.0, 143), (13.0, 9)]
    assert [row["at"] for row in _with_gaps([LagPoint(at * 5.0, "billing", 1) for at in range(3)])] == [
        0,
        5,
        10,
    ]


def test_rebalances_are_bars_marks_and_a_table(run: Run, timeline: TimelineData) -> None:
    """The one within the load; that before it has no place on the timeline, and one in the table."""
    assert [bar for bar in timeline.faults if bar.kind == "rebalance"] == [
        Bar("rebalances", 30.0, 33.05, "rebalance", "rebalance: m2 was killed", "rebalance")
    ]
    found = [(mark.at, mark.text) for mark in timeline.marks if mark.kind in ("rebalance", "killed")]
    assert found == [
        (30.0, "m2 of billing was killed"),
        (30.0, "billing: m2 was killed; took 3,050 ms, 1 member"),
    ]
    judged = JudgedRun(run[1])
    assert [row[:3] for row in groups.rebalances_table(judged, run[1].rebalances).rows] == [
        ["-2.000", "m1, m2 joined", "-"],
        ["30.000", "m2 was killed", "3,000 ms"],
    ]
    handovers = groups.handovers_table(judged, run[1].rebalances)
    (given,) = [row for row in handovers.rows if row[0] == "30.000" and row[1] == "m1"]
    assert given[2:4] == ["-", "33.000"] and 33 < float(str(given[4])) < 33.1
    assert [row[0] for row in groups.members_table(run[1].groups[0]).rows] == ["m1", "m2"]


def event(kind: str, second: int, member: str, partition: int | None = 0, group: str = "g") -> dict[str, Any]:
    """Of a group, as analysis/events has it."""
    topic = None if partition is None else "t"
    at_ns = second * 10**9
    return {
        "kind": kind, "at_ns": at_ns, "group": group, "member": member, "topic": topic, "partition": partition
    }  # fmt: skip


def test_partition_ownership_lasts_until_revoked_or_reassigned() -> None:
    """Being assigned again what one has changes nothing; another's assignment, and an end, do."""
    events = [
        event("assigned", 1, "a"),
        event("assigned", 2, "a"),
        event("assigned", 3, "b"),
        event("assigned", 3, "a", 1),
        event("revoked", 5, "b"),
        event("assigned", 6, "a"),
        event("killed", 8, "a", None),
        event("assigned", 9, "b", 1),
    ]
    found = [(bar.row, bar.text, bar.begin, bar.end) for bar in bars.owners(events, TimelineClock(0, 10.0))]
    assert found == [
        ("t/0", "a", 1, 3), ("t/0", "b", 3, 5), ("t/0", "a", 6, 8), ("t/1", "a", 3, 8), ("t/1", "b", 9, 10)
    ]  # fmt: skip
    two = [event("assigned", 1, "a"), event("assigned", 1, "x", group="h")]
    assert [bar.row for bar in bars.owners(two, TimelineClock(0, 10.0))] == ["g: t/0", "h: t/0"]
    moved = [event("assigned", s, "a") | {"topic": f"dc{s}:t"} for s in (1, 2)]  # to another cluster
    assert [bar[:3] for bar in bars.owners(moved, TimelineClock(0, 10.0))] == [
        ("dc1:t/0", 1, 2), ("dc2:t/0", 2, 10)
    ]  # fmt: skip


def test_one_row_for_each_group_that_rebalanced(run: Run) -> None:
    (one,) = [one for one in run[1].rebalances if one.trigger == "m2 was killed"]
    two = [one, one.model_copy(update={"group": "audit", "ended_ns": None})]
    found = bars.rebalances(
        run[1].model_copy(update={"rebalances": two}), TimelineClock(run[1].run.started_ns, 66.0)
    )
    assert [(bar.row, bar.end) for bar in found] == [
        ("rebalances of billing", 33.05),
        ("rebalances of audit", 66.0),
    ]


def test_timeline_lag_matches_the_samples(timeline: TimelineData) -> None:
    """Over all partitions of the group, a point a second: 7 always wait, and 25 a second of a dead member."""
    assert len(timeline.lag) == 60
    assert max(point.lag for point in timeline.lag) == 7 + 2 * 25
    assert timeline_rows(timeline)[-1].name == "lag"


def test_partition_table_lists_changed_partitions_first(run: Run) -> None:
    """At the moments of the findings, with their seconds."""
    found = leaders.partition_table(JudgedRun(run[1]))
    assert found is not None
    assert found.header[1:] == ["replicas", "before, at 15.0 s", "during, at 45.0 s", "after, at 66.0 s"]
    assert found.rows[0] == [
        "orders/0",
        "1, 2, 3",
        "broker 1, epoch 0; ISR 1, 2, 3",
        "broker 2, epoch 1; ISR 2, 3",
        "broker 2, epoch 1; ISR 1, 2, 3",
    ]


def test_many_faults_share_rows(timeline: TimelineData) -> None:
    """Fifty kills have a row of kills, not fifty rows."""
    kills = [Bar(f"{nth}-kill", nth, nth + 0.5, "fault", "kill broker 1", "kill") for nth in range(50)]
    many = replace(timeline, faults=kills)
    (first, *_) = timeline_rows(many)
    assert {bar["row"] for bar in first.data} == {"kill"} and len(first.data) == 50


def test_page_without_lag_files_has_no_timeline(run: Run) -> None:
    """Without lag/ there is no timeline; the page says what would write it."""
    folder, findings = run
    lag = folder.analysis / "lag"
    lag.rename(folder.analysis / "away")
    try:
        assert "No timeline" in to_html(folder, findings)
    finally:
        (folder.analysis / "away").rename(lag)


def test_rates_section_requires_a_target_rate(run: Run) -> None:
    """Sentences of what was below the target, and means around the faults."""
    folder, findings = run
    assert "<h2>Rates</h2>" not in to_html(folder, findings)
    mean = MeanRates(when="before", seconds=15, sent_per_s=50, acked_per_s=50, delivered_per_s=40)
    slump = Slump(what="acked", below_per_s=40, longest_s=1, total_s=2)
    rates = findings.rates.model_copy(update={"ordered_per_s": 50.0, "slumps": [slump], "means": [mean]})
    page = to_html(folder, findings.model_copy(update={"rates": rates}))
    assert "acked: below 40 for up to 1 whole second, 2 in total" in page


def test_isr_is_marked_when_it_changes() -> None:
    """Not when only its eligible leader replicas do, with the same ISR again, or none on record; none is
    empty.
    """
    row = {"topic": "orders", "partition": 0, "kind": "isr", "leader": -1, "leader_epoch": 1}
    isrs = ([1, 2], [1], None, [], [], [3])
    found = [{**row, "at_ns": n * 10**9, "isr": isr} for n, isr in enumerate(isrs)]
    marks = list(event_marks(found, TimelineClock(0, 10.0)))
    assert [mark.text for mark in marks] == [f"ISR of orders/0: {isr}" for isr in ("1, 2", "1", "empty", "3")]
