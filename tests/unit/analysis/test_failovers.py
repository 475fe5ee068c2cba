"""Failovers in histories by hand: outages, elections, affected messages, and what the findings say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fakes.histories import History, at
from fakes.judging import judged
from kaput.evidence.findings import Findings
from kaput.evidence.findings_claims import Claim, Standstill, needs_heal
from kaput.report.run_report import to_text
from kaput.report.sections import JudgedRun
from kaput.report.sections.availability import waited
from kaput.report.sections.leaders import leader_sentences


def _two_partitions(faults: Sequence[dict[str, Any]] = (), acks: object = "all") -> History:
    return History(
        producers=[{"topic": "orders", "acks": acks, "count": 2}],
        topics=[{"name": "orders", "partitions": 2, "config": {"min.insync.replicas": 2}}],
        faults=list(faults),
    )


def _load(
    seconds: int,
    *silences: tuple[int, int],
    partition: int = 0,
    history: History | None = None,
    acks: object = "all",
    epoch: int = 1,
) -> History:
    """Five messages a second to a partition, acknowledged after 5 ms; those attempted in [from, to) of a
    silence (s) only at `to`, and in `epoch`, as those after it. Two replicas have to be in sync.
    """
    history = history or _two_partitions(acks=acks)
    for seq in range(5 * seconds):
        ms = 200 * seq
        late = next((to for from_, to in silences if 1_000 * from_ <= ms < 1_000 * to), None)
        row = {"attempt_ns": at(ms), "done_ns": at(ms + 5 if late is None else 1_000 * late)}
        stored_in = epoch if silences and ms >= 1_000 * silences[0][0] else 0
        history.acked(partition, seq, seq, partition=partition, leader_epoch=stored_in, **row)
    return history


def _stopped(history: History, broker: int, stopped_s: float, started_s: float) -> History:
    for kind, at_s in (("stopped", stopped_s), ("started", started_s)):
        history.add("cluster_events", kind=kind, broker=broker, at_ns=at(at_s * 1e3), source="t")
    return history


def _killed(history: History, stopped_s: float, started_s: float, *brokers: int) -> History:
    """One kill of these brokers."""
    for broker in brokers:
        _stopped(history, broker, stopped_s, started_s)
    history.fault(brokers[0], 1e3 * stopped_s, 1e3 * started_s)
    history.rows["faults"][-1]["brokers"] = list(brokers)
    return history


def _standstill(found: Findings, partition: int | None = 0) -> Standstill:
    (one,) = [s for s in found.standstills if (s.group, s.partition) == (None, partition)]
    return one


def _waits(one: Standstill) -> list[tuple[str, float]]:
    """(condition, seconds), rounded to a tenth."""
    return [(wait.condition, round(wait.seconds, 1)) for wait in one.waited_for]


def _claims(found: Findings, kind: str) -> list[Claim]:
    return [claim for claim in found.claims if claim.kind == kind]


def test_heal_after_the_end_of_an_outage_is_no_part_of_it(tmp_path: Path) -> None:
    """Followers are paused from 6 to 9 s and the leader killed at 8 s; elected at 14.5 s, acknowledged at
    16 s; the killed broker is up again at 17.3 s.
    """
    history = _load(25, (6, 16)).led(1, 0, -1_000, [1, 2, 3]).led(2, 1, 14_500, [2, 3])
    history.fault(2, 6_000, 9_000, fault="pause", id="0-pause")
    history.rows["faults"][-1]["brokers"] = [2, 3]
    found = judged(_killed(history, 8, 17.3, 1), tmp_path)
    one = _standstill(found)
    assert (one.from_ns, one.to_ns, one.ended_by) == (at(6_000), at(16_000), "election")
    assert _waits(one) == [("election", 8.5), ("client", 1.5)]
    assert not needs_heal(one.waited_for)
    assert "a longer fault means a longer outage" not in to_text(found, "x").plain


def test_election_long_after_the_heal_is_waited_for_by_itself(tmp_path: Path) -> None:
    """All brokers are down from 10 to 20 s; a leader is elected at 27 s, and acknowledges at 28 s."""
    history = _load(35, (10, 28), epoch=2).led(1, 0, -1_000, [1, 2, 3]).led(-1, 0, 10_100, [1])
    found = judged(_killed(history.led(1, 2, 27_000, [1, 2, 3]), 10, 20, 1, 2, 3), tmp_path)
    one = _standstill(found)
    assert _waits(one) == [("heal", 10.0), ("election", 7.0), ("client", 1.0)]
    assert (one.ended_by, needs_heal(one.waited_for)) == ("election", True)
    assert waited(one.waited_for, one.ended_by) == (
        "it waited 10.0 s until the heal, then 7.0 s until a leader was elected, then 1.0 s for client and "
        "brokers; a longer fault means a longer outage"
    )
    (fault,) = found.faults
    # Leader -1 at 10.1 s is no leader.
    assert (fault.election_ms, fault.first_ack_after_ms) == (17_000, 18_000)
    assert (fault.unavailable_ms, fault.unavailable_ended_by) == (18_000, "election")
    assert needs_heal(fault.unavailable_waited_for)


def test_no_leader_is_no_broker(tmp_path: Path) -> None:
    """One replica, killed at 10 s: no leader from 10.03 s on, started at 15 s, it leads again at 15.4 s."""
    history = _load(20, (10, 16), acks=1, epoch=2).led(1, 0, -1_000, [1]).led(-1, 1, 10_030, [1])
    found = judged(_killed(history.led(1, 2, 15_400, [1]), 10, 15, 1), tmp_path)
    assert found.faults[0].election_ms == 5_400
    (election,) = _claims(found, "election")
    assert (election.fault, election.to_ns, election.figures) == (
        "1-kill",
        at(15_400),
        {"election_ms": 5_400, "leader": 1, "epoch": 2},
    )
    one = _standstill(found)
    assert _waits(one) == [("heal", 5.0), ("election", 0.4), ("client", 0.6)]
    assert ("no-leader", "orders/0: no leader") in [(e.kind, e.what) for e in one.happened]
    assert "broker -1" not in to_text(found, "x").plain


def test_affected_messages_are_counted_until_each_partition_is_back(tmp_path: Path) -> None:
    """Both partitions lose their leader at 10 s; one is acknowledged at 12 s, the other at 20 s. Five
    attempts a second to each.
    """
    history = _load(25, (10, 12))
    _load(25, (10, 20), partition=1, history=history)
    for partition, leader, ms in ((0, 2, 11_000), (1, 3, 19_000)):
        history.led(1, 0, -1_000, [1, 2, 3], partition=partition)
        history.led(leader, 1, ms, [2, 3], partition=partition)
    found = judged(_killed(history, 10, 25, 1), tmp_path)
    (fault,) = found.faults
    assert (fault.affected, fault.sent_in_window, fault.affected_share) == (10 + 50, 10 + 50, 1.0)
    told = [(c.partition, c.from_ns, c.to_ns, c.figures) for c in _claims(found, "affected")]
    assert told == [
        (0, at(10_000), at(12_000), {"sent": 10, "affected": 10}),
        (1, at(10_000), at(20_000), {"sent": 50, "affected": 50}),
    ]
    assert (fault.election_ms, fault.unavailable_ms) == (1_000, 10_000)


def test_message_that_failed_without_a_partition_is_affected(tmp_path: Path) -> None:
    """It counts in the window of its topic, which lasts until the last of its partitions is back."""
    history = _load(15, (5, 9)).led(1, 0, -1_000, [1, 2, 3]).led(2, 1, 8_000, [2, 3])
    for seq, ms in ((1_000, 4_999), (1_001, 5_000), (1_002, 8_999), (1_003, 9_000)):
        row = {"attempt_ns": at(ms), "done_ns": at(ms + 1), "partition": None}
        history.sent(0, seq, None, "failed", **row)
    (fault,) = judged(_killed(history, 5, 14, 1), tmp_path).faults
    assert (fault.affected, fault.sent_in_window) == (20 + 2, 20 + 2)


@pytest.mark.parametrize(("again", "affected"), [(False, 1 + 2), (True, 1)])
def test_what_has_no_partition_is_affected_until_the_end_if_nothing_was_acknowledged_again(
    again: bool, affected: int, tmp_path: Path
) -> None:
    """As a producer with a store sends nothing more once messages are kept."""
    history = _load(5).led(1, 0, -1_000, [1, 2, 3])
    history.sent(0, 900, None, "failed", attempt_ns=at(5_100), done_ns=at(7_000))
    for seq, ms in ((1_000, 4_999), (1_001, 8_000), (1_002, 14_000)):
        history.sent(0, seq, None, "failed", attempt_ns=at(ms), done_ns=at(ms + 1), partition=None)
    if again:
        history.acked(0, 2_000, 50, attempt_ns=at(9_500), done_ns=at(9_505))
    (fault,) = judged(_killed(history, 5, 13, 1), tmp_path).faults
    assert (fault.affected, fault.sent_in_window) == (affected, affected)


def test_fault_that_held_up_nothing_affected_nothing(tmp_path: Path) -> None:
    """It hit the leader, but nothing was silent for a second, and no leader was elected."""
    history = _load(10).led(1, 0, -1_000, [1, 2, 3]).fault(1, 5_000, 6_000, fault="delay")
    found = judged(history, tmp_path)
    (fault,) = found.faults
    assert (fault.affected, fault.sent_in_window, fault.unavailable_ms) == (0, 0, None)
    assert _claims(found, "affected") == [] and found.standstills == []


def test_deposed_leader_that_goes_on_acknowledging_affects_until_its_successor_does(tmp_path: Path) -> None:
    """acks=1, isolated from 5 to 9 s: it acknowledges until 8 s what its successor overwrites. No silence,
    but what was lost or came late counts until the first acknowledgement in the new epoch.
    """
    history = History(producers=[{"topic": "orders", "acks": 1}])
    for seq in range(100):
        ms, lost = 100 * seq, 50 <= seq < 80
        row = {"attempt_ns": at(ms), "done_ns": at(ms + 5)}
        if lost:
            history.sent(0, seq, seq, **row)
        else:
            history.sent(0, seq, seq if seq < 50 else seq - 30, **row)
            history.stored(seq if seq < 50 else seq - 30, 0, seq, leader_epoch=0 if seq < 50 else 1)
    history.led(1, 0, -1_000, [1, 2, 3]).led(2, 1, 6_000, [2, 3])
    (fault,) = judged(history.fault(1, 5_000, 9_000, fault="isolate"), tmp_path).faults
    assert (fault.lost, fault.election_ms, fault.first_ack_after_ms) == (30, 1_000, 3_005)
    # Messages 50 to 79 are lost, 80 is acknowledged in the new epoch at 8,005 ms: the end of the window.
    assert (fault.affected, fault.sent_in_window) == (31, 31)
    assert fault.unavailable_ms is None


def test_overwritten_acknowledgements_count_whatever_the_election(tmp_path: Path) -> None:
    """Broker 1 alone acknowledges 50 messages from 8 s on; then broker 2 is elected, and overwrites them."""
    history = History(
        producers=[{"topic": "orders", "acks": 1}],
        topics=[{"name": "orders", "config": {"unclean.leader.election.enable": True}}],
    )
    for seq in range(200):
        overwritten, offset = 40 <= seq < 90, seq if seq < 90 else seq - 50
        ms = 200 * seq
        row = {"attempt_ns": at(ms), "done_ns": at(ms + 5)}
        if seq >= 90:
            row["done_ns"] = max(at(25_600), at(ms + 5))
        history.sent(0, seq, offset, **row)
        if not overwritten:
            history.stored(offset, 0, seq, leader_epoch=0 if seq < 90 else 1)
    history.led(1, 0, -1_000, [1, 2, 3]).led(1, 0, 8_000, [1], kind="isr").led(2, 1, 22_200, [2])
    found = judged(_killed(history, 18, 30, 1), tmp_path)
    (lost,) = found.anomaly("lost")
    assert (lost.count, lost.permitted, lost.causes) == (50, 50, {"unclean-election": 50})
    (change,) = found.leader_changes
    assert (change.old_leader, change.leader, change.deposed_acks) == (1, 2, 50)


def test_heal_of_a_producer_does_not_end_the_silence_of_another(tmp_path: Path) -> None:
    """Producer 1 is paused from 0.1 to 7.9 s; producer 0 is silent until 8 s."""
    history = _load(10, (1, 8), epoch=0).led(1, 0, -1_000, [1, 2, 3])
    history.fault(1, 100, 7_900, fault="pause", target="producer 1")
    history.rows["faults"][-1]["brokers"] = []
    one = _standstill(judged(history, tmp_path))
    assert (one.ended_by, one.waited_for, one.cause) == ("unknown", [], None)


def test_heal_of_a_mirror_does_not_end_a_silence(tmp_path: Path) -> None:
    """The mirror is down from 1 to 7.9 s; the producer is silent until 8 s."""
    history = _load(10, (1, 8), epoch=0).led(1, 0, -1_000, [1, 2, 3])
    history.fault(1, 1_000, 7_900, target="mirror dc1->dc2")
    history.rows["faults"][-1]["brokers"] = []
    one = _standstill(judged(history, tmp_path))
    assert (one.ended_by, one.waited_for, one.cause) == ("unknown", [], None)


def test_acknowledgements_without_times_make_no_silence(tmp_path: Path) -> None:
    """Nothing is known of when they came, and that is what the findings say."""
    history = _load(10).led(1, 0, -1_000, [1, 2, 3])
    for row in history.rows["sends"]:
        row["done_ns"] = None
    found = judged(history, tmp_path)
    assert (found.standstills, found.unavailability) == ([], [])
    (claim,) = _claims(found, "times-unknown")
    assert (claim.decidable, claim.figures) == (False, {"messages": 50})


def test_nothing_is_told_of_acknowledgements_of_which_none_has_a_time(tmp_path: Path) -> None:
    history = _load(10)
    for row in history.rows["sends"]:
        row["done_ns"] = None
    text = to_text(judged(history, tmp_path), "x").plain
    assert text.splitlines()[1] == "When messages were acknowledged is not known."
    assert "acknowledged per second" not in text
    assert "acknowledged, all partitions" not in text


def test_acknowledgements_without_a_time_may_have_come_during_a_standstill(tmp_path: Path) -> None:
    history = _load(10, (4, 6))
    history.rows["sends"][0]["done_ns"] = None
    lines = to_text(judged(history, tmp_path), "x").plain.splitlines()
    assert lines[1].startswith("Nothing with a known time was acknowledged for 2.0 s (from 4.0 s on)")


def test_share_is_of_the_acknowledgements_with_a_time(tmp_path: Path) -> None:
    history = _load(10)
    for row in history.rows["sends"][:20]:
        row["done_ns"] = None
    text = to_text(judged(history, tmp_path), "x").plain
    assert "100.0 % of the 30 messages with a known time were acknowledged within 1 s." in text


def test_every_standstill_is_a_claim(tmp_path: Path) -> None:
    """The claims have the same times, waits and ends as the tables."""
    history = _load(25, (6, 16)).led(1, 0, -1_000, [1, 2, 3]).led(2, 1, 14_500, [2, 3])
    found = judged(_killed(history, 6, 17, 1), tmp_path)
    silences = [
        (c.partition, c.from_ns, c.to_ns, c.ended_by, c.waited_for) for c in _claims(found, "silence")
    ]
    assert silences == [
        (one.partition, one.from_ns, one.to_ns, one.ended_by, one.waited_for) for one in found.standstills
    ]
    (of_producer, of_fault) = _claims(found, "unavailable")
    assert (of_producer.producer, of_producer.fault, of_producer.figures) == (0, None, {"length_ms": 10_000})
    assert (of_fault.producer, of_fault.fault, of_fault.figures) == (None, "1-kill", {"length_ms": 10_000})
    (first_ack,) = _claims(found, "first-ack")
    assert (first_ack.fault, first_ack.to_ns, first_ack.figures) == (
        "1-kill", at(16_000), {"first_ack_after_ms": 10_000},
    )  # fmt: skip


@pytest.mark.parametrize(("isr", "planned"), [([1, 2, 3], True), ([2, 3], False)])
def test_leader_that_was_in_sync_was_replaced_as_planned(
    isr: list[int], planned: bool, tmp_path: Path
) -> None:
    """What fails leaves the ISR with the election. No step did it: it was Kafka itself, or a tool."""
    history = _load(10, (4, 6)).led(1, 0, -1_000, [1, 2, 3]).led(2, 1, 4_100, isr)
    found = judged(history, tmp_path)
    (change,) = found.leader_changes
    assert (change.old_leader, change.fault, change.old_leader_in_sync) == (1, None, planned)
    by = "which was in sync: a planned change, by Kafka's own rebalancing of leaders or by a tool"
    assert (by in leader_sentences(JudgedRun(found))[0]) == planned


def test_election_that_was_noticed_after_the_first_acknowledgement(tmp_path: Path) -> None:
    """By polling, 100 ms late; the acknowledgement is known to be of the new leader."""
    history = _load(10, (4, 6)).led(1, 0, -1_000, [1, 2, 3], within_ns=0)
    history.led(2, 1, 6_100, [2, 3], within_ns=200_000_000)
    found = judged(_killed(history, 4, 9, 1), tmp_path)
    assert (
        "its first acknowledgement before the election was noticed" in leader_sentences(JudgedRun(found))[0]
    )
    told = "leader elected after 2,100 ms (noticed by polling, after the first acknowledgement)"
    assert told in " ".join(to_text(found, "x").plain.split())


def test_first_lines_name_the_step_that_moved_the_clients_meanwhile(tmp_path: Path) -> None:
    history = _load(10, (4, 6)).led(1, 0, -1_000, [1, 2, 3])
    times = {"started_ns": at(4_500), "ended_ns": at(5_000)}
    history.add("plan", step="2 fence", kind="fence", outcome="done", proof="no ACL", **times)
    told = "what it waited for is not known (the plan's step 2 fence was under way)."
    assert told in to_text(judged(history, tmp_path), "x").plain.splitlines()[1]


def test_power_loss_behind_a_change_of_leader_is_no_planned_change(tmp_path: Path) -> None:
    """All brokers lost power, and no ISR shrank."""
    history = _load(10, (4, 6)).led(1, 0, -1_000, [1, 2, 3]).led(2, 1, 5_500, [1, 2, 3])
    found = judged(_killed(history, 4, 5, 1, 2, 3), tmp_path)
    assert found.leader_changes[0].fault == "1-kill"
    assert (
        "broker 2 took over from broker 1 (epoch 1), which was in sync,"
        in leader_sentences(JudgedRun(found))[0]
    )


def test_silence_of_one_producer_waits_for_what_its_own_acks_ask_for(tmp_path: Path) -> None:
    """Producer 1 has acks=all and waits until broker 2 has left the ISR; producer 0 has acks=1."""
    history = History(
        producers=[{"topic": "orders", "acks": acks} for acks in (1, "all")],
        topics=[{"name": "orders", "config": {"min.insync.replicas": 2}}],
    )
    history.led(1, 0, -1_000, [1, 2, 3]).led(1, 0, 7_000, [1, 3], kind="isr")
    for seq in range(50):
        late = 25 <= seq < 40
        for producer in (0, 1):
            times = {
                "attempt_ns": at(200 * seq),
                "done_ns": at(8_000 if late and producer else 200 * seq + 5),
            }
            history.acked(producer, seq, 2 * seq + producer, **times)
    found = judged(history.fault(2, 5_000, 9_000, fault="pause"), tmp_path)
    (mine,) = _claims(found, "unavailable")
    assert (mine.producer, mine.ended_by) == (1, "isr")
    assert [(wait.condition, wait.seconds) for wait in mine.waited_for] == [("isr", 2.0), ("client", 1.0)]


def _group_without_new_deliveries(more: History) -> History:
    """From 5 to 8 s."""
    more.groups["billing"] = True
    for row in more.rows["sends"]:
        ms = 200 * row["seq"]
        more.handed(row["offset"], 0, row["seq"], 8_000 if 5_000 <= ms < 8_000 else ms + 10)
    return more


@pytest.mark.parametrize(("left_ns", "caused"), [(None, False), (7_900, True)])
def test_delivery_while_a_broker_is_frozen_in_the_isr_did_not_wait_for_it(
    left_ns: int | None, caused: bool, tmp_path: Path
) -> None:
    """Broker 2 is paused from 5 to 9 s; the group is delivered nothing until 8 s."""
    history = _group_without_new_deliveries(_load(10, acks=1).led(1, 0, -1_000, [1, 2, 3]))
    if left_ns is not None:
        history.led(1, 0, left_ns, [1, 3], kind="isr")
    found = judged(history.fault(2, 5_000, 9_000, fault="pause"), tmp_path)
    (one,) = [s for s in found.standstills if s.group is not None and s.partition is None]
    assert (one.cause is not None, one.ended_by) == (caused, "isr" if caused else "unknown")
    why = (
        "what it waited for is not known (a delivery came while 1-kill lasted, and nothing else was missing)"
    )
    assert (why in to_text(found, "x").plain) != caused


@pytest.mark.parametrize(
    ("stalled", "owned", "why"),
    [
        (
            False,
            False,
            "by the record, orders/0 had a serving leader and its in-sync replicas the whole time",
        ),
        (
            False,
            True,
            "by the record, orders/0 had a serving leader, its in-sync replicas and an owner in the group "
            "the whole time",
        ),
        (
            True,
            False,
            "the last stable offset of orders/0 stood still; an open transaction may be the reason",
        ),
    ],
)
def test_first_lines_say_why_it_is_not_known(stalled: bool, owned: bool, why: str, tmp_path: Path) -> None:
    """What the record shows to have been there, and no more."""
    history = _group_without_new_deliveries(_load(10).led(1, 0, -1_000, [1, 2, 3]))
    for ms in (5_500, 7_500) if stalled else ():
        history.stable(25, 40, ms)
    if owned:
        history.event("assigned", -500, 0)
    told = f"what it waited for is not known ({why})."
    assert told in to_text(judged(history, tmp_path), "x").plain


def test_nothing_known_to_be_forbidden_is_called_forbidden(tmp_path: Path) -> None:
    """Retention removed the first 10, and whether they were there is not known."""
    history = _load(10)
    history.topics[0]["config"]["retention.ms"] = 1_000
    history.rows["log"] = history.rows["log"][10:]
    history.read_to_end().rows["end_offsets"][0]["start_offset"] = 10
    found = judged(history, tmp_path)
    (lost,) = found.anomaly("lost")
    assert (found.verdict, lost.count, lost.permitted, lost.unclear, lost.forbidden) == (
        "inconclusive", 10, 0, 10, 0,
    )  # fmt: skip
    text = to_text(found, "x").plain
    assert "10 acknowledged messages lost (10 not known to be permitted)" in text
    assert "forbidden)" not in text


@pytest.mark.parametrize(
    ("events", "was", "words"),
    [
        ([("stopped", 5_000)], "down", "though its process was down"),
        (
            [("stopped", 3_000), ("started", 5_000), ("unfenced", 8_000)],
            "starting",
            "though it had just been started again and had not registered yet",
        ),
        ([("stopped", 3_000), ("started", 4_000), ("unfenced", 5_000)], None, "its first acknowledgement"),
        ([("stopped", 5_500.5)], None, "its first acknowledgement"),
    ],
)
def test_leader_that_was_elected_though_it_was_not_there(
    events: list[tuple[str, float]], was: str | None, words: str, tmp_path: Path
) -> None:
    """The controller does not know yet that it died, or its session goes on: it takes nothing over."""
    history = _load(10, (4, 9)).led(1, 0, -1_000, [1, 2, 3]).led(2, 1, 5_500, [2, 3])
    for kind, ms in events:
        history.add("cluster_events", kind=kind, broker=2, at_ns=at(ms), source="history")
    found = judged(_killed(history, 4, 9, 1), tmp_path)
    assert found.leader_changes[0].leader_was == was
    (sentence,) = leader_sentences(JudgedRun(found))
    assert words in sentence
    assert ("broker 2 took over from broker 1" in sentence) == (was is None)
    assert ("broker 2 was elected in place of broker 1" in sentence) == (was is not None)


@pytest.mark.parametrize(
    ("acks", "times_ms", "acked_ms"), [("all", (6_000.0, 6_001.0), 10_000), (1, (6_005.0, 6_006.0), 10_005)]
)
def test_first_acknowledgement_whose_message_compaction_removed(
    acks: object, times_ms: tuple[float, float], acked_ms: int, tmp_path: Path
) -> None:
    """The log has only what was acknowledged from 10.005 s on. With acks=1, a deposed leader may have
    acknowledged what it has not.
    """
    topics = [{"name": "orders", "config": {"min.insync.replicas": 2, "cleanup.policy": "compact"}}]
    history = History(
        producers=[{"topic": "orders", "acks": acks, "key": 1}], topics=topics, groups={"billing": True}
    )
    history.led(1, 0, -1_000, [1, 2, 3]).led(2, 1, 8_000, [2, 3])
    for seq in range(80):
        ms = 200 * seq
        done = 10_000 if 4_000 <= ms < 10_000 else ms + 5
        history.acked(0, seq, seq, attempt_ns=at(ms), done_ns=at(done), leader_epoch=int(done >= 10_000))
        history.handed(seq, 0, seq, done + 1)
    history.rows["log"] = history.rows["log"][-30:]
    found = judged(_killed(history, 4, 12, 1), tmp_path)
    (fault,), (change,) = found.faults, found.leader_changes
    assert (fault.first_ack_after_ms, fault.first_delivery_after_ms) == times_ms
    assert change.first_ack_ns == at(acked_ms)


@pytest.mark.parametrize("policy", ["compact", "delete"])
def test_group_of_a_topic_whose_messages_are_gone_stood_still_all_the_same(
    policy: str, tmp_path: Path
) -> None:
    """What compaction, or a deletion of the log's beginning, has removed since was waited for, too."""
    topics = [{"name": "orders", "config": {"cleanup.policy": policy}}]
    history = History(
        producers=[{"topic": "orders", "acks": 1, "key": 1}], topics=topics, groups={"billing": True}
    ).led(1, 0, -1_000, [1])
    for seq in range(80):
        ms = 200 * seq
        history.acked(0, seq, seq, attempt_ns=at(ms), done_ns=at(ms + 5))
        history.handed(seq, 0, seq, 10_000 if 4_000 <= ms < 10_000 else ms + 9)
    history.rows["log"] = history.rows["log"][-20:]
    start = {"start_offset": 60} if policy == "delete" else {}
    history.add("end_offsets", topic="orders", partition=0, end_offset=80, drained_to=80, **start)
    found = judged(history, tmp_path)
    (silence,) = [one for one in found.standstills if (one.group, one.partition) == ("billing", None)]
    assert (silence.from_ns, silence.to_ns) == (at(4_000), at(10_000))
    (share,) = [one for one in found.availability if (one.group, one.partition) == ("billing", None)]
    assert (share.messages, share.standstills) == (20, 1)


def test_leader_that_was_elected_before_the_load_is_said_to_be(tmp_path: Path) -> None:
    """How long after it something was acknowledged is when the load began."""
    history = _load(10).led(1, 0, -9_000, [1, 2, 3]).led(2, 1, -3_000, [2, 3])
    (sentence,) = leader_sentences(JudgedRun(judged(history, tmp_path)))
    assert "broker 2 took over from broker 1 (epoch 1), before the load began, the old leader" in sentence


@pytest.mark.parametrize(("prove", "ended_by"), [(None, "election"), ("ssh broker is-slow", "unknown")])
def test_a_command_stops_a_broker_that_was_asked_and_did_not_answer(
    prove: str | None, ended_by: str, tmp_path: Path
) -> None:
    """Without a command that proves it; what another one proves is not known."""
    step = {"at": "4s", "for": "9s", "fault": "command", "target": "broker 1", "inject": "ssh broker stop"}
    scenario = [step | ({} if prove is None else {"prove": prove})]
    history = _load(20, (4, 10), history=_two_partitions(scenario)).led(1, 0, -1_000, [1, 2, 3])
    history.led(2, 1, 9_900, [2, 3]).fault(1, 4_000, 13_000, fault="command", id="1-command")
    standstill = _standstill(judged(history, tmp_path))
    assert standstill.ended_by == ended_by
    assert [wait.condition for wait in standstill.waited_for] == (
        ["election", "client"] if prove is None else []
    )
