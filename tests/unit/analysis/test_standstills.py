"""When the service stood still, what ended it, what happened meanwhile; histories by hand."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from fakes.histories import History, at
from fakes.in_process import InProcess
from fakes.judging import judged
from kaput.analysis import document
from kaput.analysis.engine.pieces import Parts
from kaput.analysis.facts import inputs
from kaput.analysis.pipeline import count
from kaput.analysis.questions import questions
from kaput.analysis.run import plan
from kaput.evidence.findings import Findings
from kaput.evidence.findings_claims import Standstill, Wait
from kaput.evidence.reading import check


def _history(until: dict[int, int], begin: int = 3_000) -> History:
    """Ten messages a second for 20 s to two partitions in turn, delivered as they are acknowledged; from
    `begin` on none is, until as many ms as given for each partition.
    """
    history = History(topics=[{"name": "orders", "partitions": 2}], groups={"billing": True})
    for seq in range(200):
        ms, partition = 100 * seq, seq % 2
        done = until.get(partition, 0) if begin <= ms < until.get(partition, 0) else ms + 5
        row = {"partition": partition, "attempt_ns": at(ms), "done_ns": at(done)}
        history.acked(0, seq, seq // 2, **row).handed(seq // 2, 0, seq, done + 1, partition=partition)
    for partition in range(2):
        history.led(1 + partition, 0, -100, [1, 2, 3], partition=partition)
    return history


def _scope(found: Findings, group: str | None = None, partition: int | None = None) -> list[Standstill]:
    return [one for one in found.standstills if (one.group, one.partition) == (group, partition)]


def test_service_standstill_requires_every_partition_to_be_down(tmp_path: Path) -> None:
    """From the first attempt that waits to the next acknowledgement of any; each partition for as long as it
    took: the one has its first attempt at 3 s, the other 100 ms later.
    """
    found = judged(_history({0: 9_000, 1: 6_000}).fault(1, 3_000, 8_900), tmp_path)
    (service,), (first,), (second,) = (_scope(found, partition=p) for p in (None, 0, 1))
    assert (service.from_ns, service.to_ns, service.length_ms) == (at(3_000), at(6_000), 3_000)
    assert (first.length_ms, second.length_ms) == (9_000 - 3_000, 6_000 - 3_100)
    assert (first.ended_by, second.ended_by) == ("heal", "unknown")
    (group,) = _scope(found, "billing")
    assert (group.from_ns, group.to_ns) == (at(3_000), at(6_001))


def test_events_during_a_standstill_are_listed_in_order(tmp_path: Path) -> None:
    """Of a partition its own changes, of all the changes of each, those of one moment together."""
    history = _history({0: 9_000, 1: 9_000}).fault(1, 3_000, 15_000)
    for partition in range(2):
        history.led(3, 1, 8_000, [2, 3], partition=partition)
    history.add("cluster_events", kind="fenced", broker=1, at_ns=at(7_999), source="history")
    found = judged(history, tmp_path)
    (service,), (first,) = _scope(found), _scope(found, partition=0)
    assert [(one.kind, one.what) for one in service.happened] == [
        ("fault", "1-kill (broker 1) took effect"),
        ("fenced", "broker 1 fenced"),
        ("election", "orders/0, orders/1: broker 3 was elected, ISR 2, 3"),
    ]
    assert [one.what for one in first.happened][-1] == "orders/0: broker 3 was elected, ISR 2, 3"
    assert (service.ended_by, first.ended_by) == ("election", "election")
    assert first.cause == "1-kill (broker 1) was in effect; broker 1 led orders/0"
    (second,) = _scope(found, partition=1)
    assert second.cause == (
        "1-kill (broker 1) was in effect; broker 1 was in the ISR of orders/1, which acks=all waits for"
    )


@pytest.mark.parametrize(("injected", "named"), [(3_900, True), (4_100, False)])
def test_what_comes_after_a_second_of_silence_has_not_begun_it(
    injected: int, named: bool, tmp_path: Path
) -> None:
    """Nothing is acknowledged from 3 s on, for a reason that is not recorded; then the leader is slowed down
    until long after the acknowledgements came again.
    """
    history = _history({0: 6_000, 1: 6_000}).fault(1, injected, 15_000, fault="delay")
    (first,) = _scope(judged(history, tmp_path), partition=0)
    assert (first.ended_by, first.cause is not None) == ("unknown", named)


@pytest.mark.parametrize(("healed", "longest"), [(2_500, None), (3_500, 3_000)])
def test_silence_that_begins_after_the_recovery_is_not_of_the_fault(
    healed: int, longest: int | None, tmp_path: Path
) -> None:
    """Nothing is acknowledged from 3 to 6 s; no ISR had shrunk."""
    history = _history({0: 6_000, 1: 6_000}).fault(1, 1_000, healed, fault="delay")
    assert judged(history, tmp_path).faults[0].unavailable_ms == longest


@pytest.mark.parametrize(("api", "hit"), [("Produce", True), ("FindCoordinator", False)])
def test_requests_of_clients_elect_no_leader(api: str, hit: bool, tmp_path: Path) -> None:
    """The kill of the leader has its election although its requests are answered with errors after it; an
    acknowledgement waits for Produce, and for no FindCoordinator.
    """
    history = _history({0: 9_000, 1: 9_000}).fault(1, 3_000, 15_000).led(3, 1, 8_000, [2, 3])
    error = {"fault": "protocol", "what": "error", "error": "COORDINATOR_NOT_AVAILABLE", "api": api}
    error |= {"error": "REQUEST_TIMED_OUT"} if hit else {}
    step = {"at": "3s", "target": "broker 1"}
    history.faults = [{"fault": "kill", **step}, {**error, **step}]
    history.fault(1, 3_500, 9_500, fault="protocol", id="2-protocol", proof="requests seen")
    found = judged(history, tmp_path)
    kill, protocol = found.faults
    assert (kill.election_ms, protocol.election_ms) == (5_000, None)
    assert (protocol.sent_in_window > 0) == hit
    (first,) = _scope(found, partition=0)
    assert ("2-protocol" in (first.cause or "")) == hit and "1-kill" in (first.cause or "")


@pytest.mark.parametrize(("api", "hit"), [("Fetch", True), ("EndTxn", False)])
def test_what_a_coordinator_is_asked_holds_up_no_partition_that_it_leads(
    api: str, hit: bool, tmp_path: Path
) -> None:
    """A group got nothing while the leader was asked late, or while it was as a coordinator."""
    history = _history({})
    history.groups = {"billing": True}
    for row in history.rows["deliveries"]:
        if row["polled_ns"] > at(3_000):
            row["polled_ns"] = max(row["polled_ns"], at(6_000))
    step = {"at": "3s", "fault": "protocol", "target": "broker 1", "what": "delay", "delay": "1s", "api": api}
    history.faults = [step]
    history.fault(1, 2_900, 6_500, fault="protocol", id="1-protocol", proof="requests seen")
    causes = [one.cause or "" for one in judged(history, tmp_path).standstills if one.group == "billing"]
    assert causes and any("1-protocol" in cause for cause in causes) == hit


def test_a_message_that_fails_does_not_tell_what_a_group_waited_for(tmp_path: Path) -> None:
    """Acknowledgements wait for the client then; a group waits for what is there."""
    history = _history({0: 6_000, 1: 6_000})
    history.sent(0, 200, outcome="unknown", attempt_ns=at(3_000), done_ns=at(5_000))
    found = judged(history, tmp_path)
    assert {one.ended_by for one in found.standstills if one.group == "billing"} == {"unknown"}
    assert [one.ended_by for one in _scope(found, partition=0)] == ["client"]


def _handed_over(until: int = 6_000) -> History:
    """Group audit gets all at once; billing nothing from 3 s on, until its member has a partition again."""
    history = _history({})
    history.groups = {"billing": True, "audit": True}
    for row in list(history.rows["deliveries"]):
        history.add("deliveries", **row | {"group": "audit"})
        row["polled_ns"] = (
            max(row["polled_ns"], at(until)) if row["polled_ns"] > at(3_000) else row["polled_ns"]
        )
    for partition in range(2):
        where = {"partition": partition, "member": "member-1"}
        history.event("assigned", -50, 0, **where).event("revoked", 3_000, **where)
        history.event("assigned", until - 100, 0, **where)
    history.event("assigned", -50, 0, group="audit", member="a1")
    history.event("revoked", 4_000, group="audit", member="a1")
    return history.event("assigned", 4_100, 0, group="audit", member="a1")


def _waits(waits: Sequence[Wait]) -> list[tuple[str, int, int]]:
    """(condition, from, to) in ms of the run."""
    return [
        (one.condition, *((at_ns - at(0)) // 10**6 for at_ns in (one.from_ns, one.to_ns))) for one in waits
    ]


def test_a_group_stands_still_while_its_partitions_change_hands(tmp_path: Path) -> None:
    """Its own rebalance ended that, and is the cause; another group's is not even listed."""
    found = judged(_handed_over(), tmp_path)
    (billing,) = _scope(found, "billing")
    assert (billing.from_ns, billing.to_ns, billing.ended_by) == (at(3_000), at(6_000), "rebalance")
    assert _waits(billing.waited_for) == [("rebalance", 3_000, 5_900), ("client", 5_900, 6_000)]
    assert billing.cause is not None and billing.cause.startswith("group billing rebalanced: ")
    assert [one.kind for one in billing.happened] == ["rebalance"]
    assert billing.happened[0].what.startswith("group billing rebalanced")
    assert billing.happened_left_out == 0


def test_fault_that_takes_effect_during_its_injection_is_not_dated_by_its_proof(tmp_path: Path) -> None:
    """The disk was full at some time between the two."""
    history = _history({0: 9_000, 1: 9_000}).fault(1, 2_000, 8_900, fault="disk-full", effective_ns=at(5_000))
    (first,) = _scope(judged(history, tmp_path), partition=0)
    when = "was injected before it began, and proven 2.0 s after that; broker 1 led orders/0"
    assert first.cause == f"1-kill (broker 1) {when}"


def test_quota_that_comes_during_a_rebalance_is_no_cause_of_it(tmp_path: Path) -> None:
    """It only slows clients, and leaves no partition without an owner."""
    history = _handed_over().fault(1, 5_000, 9_000, fault="quota", target="cluster")
    history.rows["faults"][0]["brokers"] = []
    (billing,) = _scope(judged(history, tmp_path), "billing")
    assert billing.cause is not None and billing.cause.startswith("group billing rebalanced: ")


@pytest.mark.parametrize(("paused_ms", "named"), [(4_500, True), (5_500, False)])
def test_member_frozen_when_its_group_had_almost_rebalanced_is_no_cause(
    paused_ms: int, named: bool, tmp_path: Path
) -> None:
    """It had given up its partitions at 3 s; another one has them at 5.9 s."""
    pause = {"fault": "pause", "id": "1-pause", "target": "member 1 of billing"}
    history = _handed_over().fault(1, paused_ms, 9_000, **pause)
    history.rows["faults"][0]["brokers"] = []
    for row in [*history.rows["group_events"], *history.rows["deliveries"]]:
        late = row.get("at_ns", row.get("polled_ns", 0)) > at(3_000)
        row["member"] = "member-2" if late and row["group"] == "billing" else row["member"]
    (billing,) = _scope(judged(history, tmp_path), "billing")
    assert ("1-pause" in (billing.cause or ""), "rebalanced: " in (billing.cause or "")) == (named, not named)


def test_rebalance_that_had_begun_long_before_a_silence_says_so(tmp_path: Path) -> None:
    """What had begun it may have nothing to do with this silence."""
    history = _handed_over()
    first = next(row for row in history.rows["group_events"] if row["kind"] == "revoked")
    first["at_ns"] = at(1_500)
    (billing,) = _scope(judged(history, tmp_path), "billing")
    assert billing.cause is not None
    assert billing.cause.startswith("group billing had been rebalancing for 1.5 s: ")


def test_rebalance_at_the_end_of_a_silence_is_not_its_cause(tmp_path: Path) -> None:
    """Billing gets nothing from 3 s on although its member has the partitions, until they change hands."""
    history = _handed_over()
    for row in history.rows["group_events"]:
        if row["group"] == "billing" and row["kind"] == "revoked":
            row["at_ns"] = at(5_800)
    (billing,) = _scope(judged(history, tmp_path), "billing")
    waits = [("unknown", 3_000, 5_800), ("rebalance", 5_800, 5_900), ("client", 5_900, 6_000)]
    assert (_waits(billing.waited_for), billing.cause) == (waits, None)


@pytest.mark.parametrize(
    ("group", "last"), [("billing", [("heal", 5_900, 5_950), ("client", 5_950, 6_000)]),
                        ("audit", [("client", 5_900, 6_000)])],
)  # fmt: skip
def test_member_fault_heal_ends_only_that_groups_standstill(
    group: str, last: list[tuple[str, int, int]], tmp_path: Path
) -> None:
    """The owner is assigned its partitions while it is still down; a heal in another group is no matter."""
    history = _handed_over().fault(1, 3_000, 5_950, target=f"members 1 of {group}", fault="kill")
    history.rows["faults"][0]["brokers"] = []
    (billing,) = _scope(judged(history, tmp_path), "billing")
    assert _waits(billing.waited_for) == [("rebalance", 3_000, 5_900), *last]
    assert billing.ended_by == ("heal" if group == "billing" else "rebalance")


def test_standstills_of_one_partition_are_in_the_order_of_time(tmp_path: Path) -> None:
    """Though the second one is longer."""
    history = _history({0: 5_000})
    for row, delivery in zip(history.rows["sends"], history.rows["deliveries"], strict=True):
        if row["partition"] == 0 and at(8_000) <= row["attempt_ns"] < at(14_000):
            row["done_ns"], delivery["polled_ns"] = at(14_000), at(14_001)
    found = _scope(judged(history, tmp_path), partition=0)
    assert [(one.from_ns, one.to_ns) for one in found] == [(at(3_000), at(5_000)), (at(8_000), at(14_000))]


def test_partitions_resuming_together_have_separate_end_causes(tmp_path: Path) -> None:
    """Only the second one lost its leader. The first was acknowledged while broker 2 was still down and in
    its ISR, so that is not what it had waited for. All together are as the first of them.
    """
    history = _history({0: 6_000, 1: 6_000}).fault(2, 3_000, 20_000).led(3, 1, 5_900, [1, 3], partition=1)
    found = judged(history, tmp_path)
    (service,), (first,), (second,) = (_scope(found, partition=p) for p in (None, 0, 1))
    assert service.to_ns == first.to_ns == second.to_ns == at(6_000)
    assert (service.ended_by, first.ended_by, second.ended_by) == ("unknown", "unknown", "election")
    assert [claim.decidable for claim in found.claims if claim.kind == "silence" and claim.group is None] == [
        False, False, True,
    ]  # fmt: skip


def test_standstill_events_are_capped_at_twenty(tmp_path: Path) -> None:
    """And how many more there were."""
    history = _history({0: 9_000, 1: 9_000})
    for number in range(25):
        history.led(None, None, 4_000 + number, [1, 2 + number % 2], kind="isr")
    (service,) = _scope(judged(history, tmp_path))
    assert (len(service.happened), service.happened_left_out) == (20, 5)


def test_fault_elsewhere_is_no_cause(tmp_path: Path) -> None:
    """It is still in effect; but when the standstill begins, other brokers lead and are in sync."""
    history = _history({0: 12_000, 1: 12_000}, begin=9_000).fault(1, 3_000, 15_000)
    for partition in range(2):
        history.led(3 if partition == 0 else 2, 1, 8_000, [2, 3], partition=partition)
    found = judged(history, tmp_path)
    for partition in range(2):
        (standstill,) = _scope(found, partition=partition)
        assert (standstill.cause, standstill.ended_by) == (None, "unknown")


@pytest.mark.parametrize(
    ("target", "brokers", "cause"),
    [
        ("mirror dc1->dc2", [], "1-pause (mirror dc1->dc2) was in effect"),
        ("mirror dc2->dc1", [], None),
        ("broker 1001", [1001], "1-pause (broker 1001) was in effect; broker 1001 led dc2:dc1.orders/0"),
        ("cluster", [], "1-quota (cluster) was in effect"),
        ("topic dc2:dc1.orders", [], "1-deny (topic dc2:dc1.orders) was in effect"),
        ("topic dc2:orders", [], None),
    ],
)
def test_copies_of_a_silent_partition_are_hit_where_the_group_reads_them(
    target: str, brokers: list[int], cause: str | None, tmp_path: Path
) -> None:
    """What dc1 has is delivered in dc2, and not from 3 to 8 s."""
    history = History(
        clusters={"dc1": {}, "dc2": {}},
        topics=[{"name": "orders", "cluster": "dc1"}],
        mirrors=[{"from": "dc1", "to": "dc2", "topics": ["orders"], "policy": "default"}],
        groups={"billing": True},
        subscriptions={"billing": ["dc1.orders"]},
        blocks={"billing": {"cluster": "dc2"}},
    )
    copy = {"cluster": "dc2", "topic": "dc1.orders"}
    for seq in range(100):
        ms = 100 * seq
        history.sent(0, seq, seq, cluster="dc1", attempt_ns=at(ms), done_ns=at(ms + 5))
        history.stored(seq, 0, seq, cluster="dc1").stored(seq, 0, seq, **copy)
        history.handed(seq, 0, seq, 8_000 if 3_000 <= ms < 8_000 else ms + 50, **copy)
    history.led(1, 0, -100, [1], cluster="dc1").led(1001, 0, -100, [1001], **copy)
    history.event("assigned", -50, 0, **copy)
    fault = {"cluster": "quota", "topic": "deny"}.get(target.partition(" ")[0], "pause")
    history.fault(0, 2_900, 7_900, target=target, fault=fault, id=f"1-{fault}", cluster="dc2")
    history.rows["faults"][0]["brokers"] = brokers
    (first,) = _scope(judged(history, tmp_path), "billing", partition=0)
    assert (first.topic, first.cause) == ("dc1:orders", cause)


@pytest.mark.parametrize(("producer", "named"), [(0, True), (1, False)])
def test_fault_on_a_producer_that_waits_for_nothing_is_no_cause(
    producer: int, named: bool, tmp_path: Path
) -> None:
    """Both send to partition 0; what waits from 3 s on is of producer 0."""
    history = _history({0: 6_000, 1: 6_000})
    history.producers *= 2
    history.acked(1, 0, 500, attempt_ns=at(1_000), done_ns=at(1_005))
    history.acked(1, 1, 501, attempt_ns=at(7_000), done_ns=at(7_005))
    history.fault(0, 2_900, 6_500, target=f"producer {producer}", fault="pause", id="1-pause")
    history.rows["faults"][0]["brokers"] = []
    (first,) = _scope(judged(history, tmp_path), partition=0)
    assert (first.cause is not None) is named


@pytest.mark.parametrize(("began", "named"), [(8_950, True), (9_050, False)])
@pytest.mark.parametrize(("fault", "partition"), [("pause", 0), ("pause", 1), ("kill", 0)])
def test_delivery_waited_for_a_broker_whose_heal_had_begun(
    fault: str, partition: int, began: int, named: bool, tmp_path: Path
) -> None:
    """It came at 9 s, and the heal was confirmed soon after; the broker led, or was in the ISR, all the time:
    what was delivered before had been fetched, or seen, before.
    """
    history = _history({0: 9_000, 1: 9_000}).fault(1, 3_000, 9_100, fault=fault, heal_began_ns=at(began))
    (silence,) = _scope(judged(history, tmp_path), "billing", partition=partition)
    role = "broker 1 led orders/0" if partition == 0 else "broker 1 was in the ISR of orders/1"
    assert (role in (silence.cause or "")) is named


@pytest.mark.parametrize(("minimum", "named"), [(1, False), (2, True)])
def test_follower_without_which_the_isr_was_too_small_is_a_cause(
    minimum: int, named: bool, tmp_path: Path
) -> None:
    """Broker 2 left the ISR before the silence, and did not come back; broker 3 ended it."""
    producer = {"topic": "orders", "acks": "all"}
    topic = {"name": "orders", "replication-factor": 3, "config": {"min.insync.replicas": minimum}}
    history = _history({0: 9_000, 1: 3_000})
    history.producers, history.topics = [producer], [topic | {"partitions": 2}]
    history.fault(2, 500, 20_000).fault(3, 2_000, 8_000)
    for ms, isr in ((1_000, [1, 3]), (2_900, [1]), (8_900, [1, 3])):
        history.led(1, 0, ms, isr, kind="isr")
    (first,) = _scope(judged(history, tmp_path), partition=0)
    assert ("2 had left the ISR of orders/0, which was too small" in (first.cause or "")) is named


def test_fault_on_a_member_that_took_over_is_no_cause(tmp_path: Path) -> None:
    """Its heal had begun before it was assigned anything, and a member that joins holds nothing up."""
    for fault in ("kill", "join"):
        target = {"target": "member 1 of billing", "fault": fault, "heal_began_ns": at(3_100)}
        history = _handed_over().fault(1, 2_900, 5_990, **target)
        history.rows["faults"][0]["brokers"] = []
        for event in history.rows["group_events"]:
            if event["group"] == "billing" and event["at_ns"] <= at(3_000):
                event["member"] = "member-2"
        (billing,) = _scope(judged(history, tmp_path / fault), "billing")
        assert "1-kill" not in (billing.cause or "")


def test_leader_that_clients_still_asked_is_a_cause(tmp_path: Path) -> None:
    """It handed over its partition before the silence began, and clients had not heard of that yet."""
    history = _history({0: 5_000}, begin=3_400).fault(1, 3_000, 20_000, fault="stop", id="1-stop")
    history.led(3, 1, 3_300, [2, 3])
    history.add("cluster_events", kind="stopped", broker=1, at_ns=at(4_500), source="history")
    (first,) = _scope(judged(history, tmp_path), partition=0)
    assert first.cause == (
        "1-stop (broker 1) was in effect; broker 1 was the last that had acknowledged anything in orders/0"
    )


def test_change_that_never_ends_took_effect_and_was_not_healed(tmp_path: Path) -> None:
    """Its heal is the moment at which it took effect."""
    history = _history({0: 6_000}).fault(1, 3_400, 3_400, fault="move-leader", id="1-move-leader")
    history.led(2, 1, 5_900, [1, 2, 3])
    (first,) = _scope(judged(history, tmp_path), partition=0)
    assert first.cause == "1-move-leader (broker 1) took effect 0.4 s after it began; broker 1 led orders/0"
    told = [one.what for one in first.happened if one.kind in ("fault", "heal")]
    assert told == ["1-move-leader (broker 1) took effect"]


def test_fault_while_nothing_waited_for_its_partition_is_no_cause_of_all_together(tmp_path: Path) -> None:
    """Nothing was sent to partition 0 from 3 to 5 s; what waited then was sent to partition 1."""
    for since, until, cause in [
        (3_500, 3_900, None),
        (3_500, 5_100, "1-kill (broker 1) was in effect until 3.9 s before its end, and hit orders/0"),
    ]:
        history = _history({0: 9_000, 1: 8_950}).led(None, None, 0, [2, 3], kind="isr", partition=1)
        mine = [row for row in history.rows["sends"] if row["partition"] == 0]
        never = {row["seq"] for row in mine if at(3_000) <= row["attempt_ns"] < at(5_000)}
        for table, rows in history.rows.items():
            history.rows[table] = [one for one in rows if one.get("seq") not in never]
        (service,) = _scope(judged(history.fault(1, since, until), tmp_path))
        assert (service.to_ns, service.cause) == (at(8_950), cause)


def test_fault_that_began_the_silence_of_a_partition_is_a_cause_of_all_together(tmp_path: Path) -> None:
    """The leader of partition 0 is down from 3 to 5 s, and another is elected at 7.9 s; nothing is sent to
    partition 1 from 6 s on. What hits partition 1 when it has been silent for a second is no cause.
    """
    history = _history({0: 8_000, 1: 6_000}).fault(1, 3_000, 5_000).led(3, 1, 7_900, [3])
    history.led(None, None, 0, [1, 3], kind="isr")
    history.led(None, None, 0, [2, 3], kind="isr", partition=1)
    for table, rows in history.rows.items():
        kept = [row for row in rows if row.get("partition") != 1 or (row.get("seq") or 0) < 60]
        history.rows[table] = kept if table in ("sends", "log", "deliveries") else rows
    history.fault(2, 4_500, 8_500, fault="delay", id="2-delay")
    found = judged(history, tmp_path)
    (service,) = (one for one in _scope(found) if one.from_ns > at(5_999))
    (second,) = _scope(found, partition=1)
    assert (service.to_ns, second.to_ns) == (at(8_000), at(6_000))
    assert service.cause == "1-kill (broker 1) had been in effect, and hit orders/0"
    assert second.cause is None


def test_heal_before_all_were_silent_is_not_what_all_waited_for(tmp_path: Path) -> None:
    """Member 1, of partition 0, is frozen from 3 to 5 s, the leader of both from 5.5 s on; partition 1 has
    nothing from 6 s on.
    """
    history = _history({})
    history.groups = {"billing": True}
    for row in history.rows["deliveries"]:
        since = at(6_000 if row["partition"] else 3_000)
        row["polled_ns"] = max(row["polled_ns"], at(9_000)) if row["polled_ns"] > since else row["polled_ns"]
    for partition in range(2):
        history.event("assigned", -50, 0, partition=partition, member=f"member-{partition + 1}")
    frozen = {"fault": "pause", "id": "1-pause", "target": "member 1 of billing"}
    history.fault(1, 3_000, 5_000, **frozen).fault(1, 5_500, 8_900, fault="pause", id="2-pause")
    history.rows["faults"][0]["brokers"] = []
    found = judged(history, tmp_path)
    (first,), (service,) = (_scope(found, "billing", partition) for partition in (0, None))
    assert first.waited_for[0].faults == ["1-pause", "2-pause"]
    assert "1-pause" in (first.cause or "") and service.from_ns > at(5_900)
    assert "1-pause" not in (service.cause or "") and "2-pause" in (service.cause or "")


def test_service_standstill_ends_as_its_first_resuming_partition(tmp_path: Path) -> None:
    """An election elsewhere is not what ended it: that partition came back later."""
    history = _history({0: 12_000, 1: 8_300}).fault(1, 3_000, 18_000)
    history.led(3, 1, 8_000, [2, 3], partition=0)
    history.add(
        "cluster_events",
        kind="isr",
        topic="orders",
        partition=1,
        isr=[2, 3],
        at_ns=at(8_000),
        source="history",
    )
    found = judged(history, tmp_path)
    (service,), (first,), (second,) = (_scope(found, partition=p) for p in (None, 0, 1))
    assert (service.to_ns, service.ended_by) == (second.to_ns, "isr")
    assert (second.ended_by, first.ended_by) == ("isr", "election")


def test_clients_that_come_late_to_a_new_leader_are_waited_for(tmp_path: Path) -> None:
    """It was elected at 8 s; what follows is the clients' own time, and the heal at 15 s is no matter."""
    history = _history({0: 16_000, 1: 16_000}).fault(1, 3_000, 15_000)
    history.led(3, 1, 8_000, [2, 3], partition=0)
    (first,) = _scope(judged(history, tmp_path), partition=0)
    assert _waits(first.waited_for) == [("election", 3_000, 8_000), ("client", 8_000, 16_000)]
    assert first.ended_by == "election"
    assert first.cause == "1-kill (broker 1) was in effect until 1.0 s before its end; broker 1 led orders/0"


def test_unavailability_of_a_fault_names_its_end_cause(tmp_path: Path) -> None:
    """As does the longest one of each producer; a producer that was never silent has none."""
    found = judged(_history({0: 9_000}).fault(1, 3_000, 8_000), tmp_path)
    (fault,) = found.faults
    assert (fault.unavailable_ms, fault.unavailable_ended_by) == (6_000, "heal")
    assert [(one.partition, one.ended_by) for one in found.unavailability] == [(0, "heal")]


def test_unavailability_until_the_end_has_no_end_cause(tmp_path: Path) -> None:
    """Its messages were given up."""
    history = _history({})
    for seq in range(200, 203):
        history.sent(0, seq, outcome="unknown", attempt_ns=at(20_000), done_ns=at(25_000))
    found = judged(history, tmp_path)
    (service,) = _scope(found)
    assert (service.length_ms, service.ended_by) == (5_000, None)
    assert {one.ended_by for one in found.unavailability} == {None}


def test_availability_within_one_second_and_within_the_timeout(tmp_path: Path) -> None:
    """In all, of each partition and of the group; seconds at a standstill add up."""
    history = _history({0: 9_000, 1: 6_000})
    history.producers = [{"topic": "orders", "acks": "all", "config": {"message.timeout.ms": 5_000}}]
    every, first, second, group, *_ = judged(history, tmp_path).availability
    assert (every.messages, first.messages, second.messages, group.messages) == (200, 100, 100, 200)
    # Late are the attempts from 3,000 ms up to a second before the end.
    assert (first.within_1s, second.within_1s) == (100 - 25, 100 - 10)
    assert every.within_1s == 165 and every.within_1s_share == 165 / 200
    assert first.within_timeout == 100 - 5 and every.within_timeout == 200 - 5
    assert (group.within_1s, group.within_timeout) == (164, None)
    assert (every.standstill_s, every.standstills) == (3, 1)


def test_a_slow_producer_is_no_standstill(tmp_path: Path) -> None:
    """Nothing waits between its messages."""
    history = History()
    for seq in range(10):
        history.acked(0, seq, seq, attempt_ns=at(5_000 * seq), done_ns=at(5_000 * seq + 300))
    found = judged(history, tmp_path)
    assert found.standstills == []
    assert [one.standstill_s for one in found.availability] == [0, 0]


def test_timestamp_decades_off_is_handled_quickly(tmp_path: Path) -> None:
    """One attempt of 1970: a wait of decades, and no loop over it."""
    history = _history({}).acked(0, 200, 100, attempt_ns=0, done_ns=at(20_000))
    begin = time.monotonic()
    (service,) = _scope(judged(history, tmp_path))
    assert service.from_ns == 0 and service.to_ns == at(5)
    assert time.monotonic() - begin < 120  # a step for each second of them would take hours


@pytest.mark.parametrize(
    ("lags", "expected"),
    [
        ([(8_500, 50), (9_000, 40)], "unknown"),  # it may have grown after the heal
        ([(7_900, 50), (9_000, 40)], "heal"),
        ([(5_900, 50), (7_900, 40)], "unknown"),  # it fell before the heal
        ([(8_100, 60), (9_000, 70)], "unknown"),  # it still grew after the heal
    ],
)
def test_lag_growth_end_cause_is_at_its_last_peak(
    lags: list[tuple[int, int]], expected: str, tmp_path: Path
) -> None:
    """The heal, if it came between the last sample with the greatest lag and the next; else not known."""
    history = _history({0: 9_000}).fault(1, 3_000, 8_000)
    for ms, lag in ((2_000, 0), (5_600, 50), *lags, (12_000, 0)):
        row = {"at_ns": at(ms), "source": "lab", "name": "lag", "value": float(lag)}
        history.add("samples", labels=[("group", "billing")], **row)
    (fault,) = judged(history, tmp_path).faults
    assert (fault.backlog_drained_ms, fault.lag_ended_by) == (9_000, expected)


def test_bills_of_a_pipe_wait_for_in_sync_replicas(tmp_path: Path) -> None:
    """What a pipe makes is sent in transactions, and so with acks=all: a frozen follower holds it up."""
    history = _history({})
    history.topics.append({"name": "bills"})
    history.blocks["billing"] = {"produces": {"topic": "bills"}}
    bills = {"topic": "bills", "partition": 0}
    history.led(3, 0, -100, [3, 1, 2], **bills)
    for seq in range(200):
        ms = 100 * seq
        done = 9_000 if 3_000 <= ms < 9_000 else ms + 5
        history.acked(1, seq, seq, attempt_ns=at(ms), done_ns=at(done), **bills).output(1, seq, seq)
    found = judged(history.fault(1, 3_000, 8_990, fault="pause", id="1-pause"), tmp_path)
    (of_bills,) = (one for one in found.standstills if one.topic == "bills")
    assert of_bills.ended_by == "heal"
    assert of_bills.cause == (
        "1-pause (broker 1) was in effect; broker 1 was in the ISR of bills/0, which acks=all waits for"
    )


@pytest.mark.parametrize(
    ("fault", "until_ms", "hit"),
    [("bandwidth", 5_000, False), ("bandwidth", 8_500, True), ("pause", 5_000, True)],
)
def test_who_slows_a_follower_holds_up_nothing_that_waits_for_an_election(
    fault: str, until_ms: int, hit: bool, tmp_path: Path
) -> None:
    """Broker 1 dies at 3 s, and broker 3 leads from 8 s on; broker 2 is slowed (or frozen) from 1 s on."""
    history = _history({0: 9_000, 1: 9_000}).fault(2, 1_000, until_ms, fault=fault, id=f"1-{fault}")
    history.fault(1, 3_000, 15_000, id="2-kill").led(3, 1, 8_000, [2, 3], partition=0)
    found = judged(history, tmp_path)
    (first,) = _scope(found, partition=0)
    assert _waits(first.waited_for) == [("election", 3_000, 8_000), ("client", 8_000, 9_000)]
    kill = "2-kill (broker 1) was in effect; broker 1 led orders/0"
    assert ("2-kill" in first.cause, f"1-{fault}" in first.cause) == (True, hit)  # type: ignore[operator]
    assert hit or first.cause == kill
    affected = {(one.fault, one.partition) for one in found.claims if one.kind == "affected"}
    assert ((f"1-{fault}", 0) in affected) == hit


@pytest.mark.parametrize("of", [2, 3])
def test_broker_that_ended_with_its_disk_full_is_waited_for(of: int, tmp_path: Path) -> None:
    """A full disk may only slow a follower; where the process ended, it is waited for until it is back."""
    history = _history({0: 9_000, 1: 9_000}).fault(of, 3_000, 8_900, fault="disk-full", id="1-disk-full")
    for kind, ms in (("stopped", 3_400), ("started", 8_900)):
        history.add("cluster_events", kind=kind, broker=2, at_ns=at(ms), source="kaput")
    (first,) = _scope(judged(history, tmp_path), partition=0)
    assert [wait.condition for wait in first.waited_for] == ["heal", "client"]
    assert ("1-disk-full" in (first.cause or "")) == (of == 2)


def _of_a_transaction(history: History, begin: int, end: int | None) -> History:
    ids = {"transactional_id": "t0", "producer": 0, "transaction": 7, "first_seq": 0, "last_seq": 199}
    times = {"begin_ns": at(begin), "end_ns": end and at(end), "error": None}
    return history.add("transactions", outcome="committed" if end else "unknown", **ids, **times)


def _whys(found: Findings, group: str | None) -> list[str]:
    """Why it is not known what the silences of partition 0 waited for."""
    silences = [one for one in found.claims if one.kind == "silence"]
    return [one.why for one in silences if (one.group, one.partition) == (group, 0)]


@pytest.mark.parametrize(
    ("begin", "end", "isolation", "named"),
    [
        (3_000, 8_990, "read_committed", True),
        (6_100, 8_990, "read_committed", False),
        (3_000, None, "read_committed", False),
        (3_000, 8_990, "read_uncommitted", False),
    ],
)
def test_a_transaction_that_was_open_for_most_of_it_is_named(
    begin: int, end: int | None, isolation: str, named: bool, tmp_path: Path
) -> None:
    """Of a group that reads what is committed; it may have waited for something else."""
    history = History(topics=[{"name": "orders", "partitions": 1}], groups={"billing": True})
    for seq in range(200):
        ms = 100 * seq
        shown = 9_000 if 3_000 <= ms < 9_000 else ms + 6
        history.acked(0, seq, seq, attempt_ns=at(ms), done_ns=at(ms + 5)).handed(seq, 0, seq, shown)
    history.led(1, 0, -100, [1, 2, 3])
    history.blocks["billing"] = {"config": {"isolation.level": isolation}}
    found = judged(_of_a_transaction(history, begin, end), tmp_path)
    (why,) = _whys(found, "billing")
    told = "transaction 7 of producer 0 was open for 6.0 s of it, and the group reads only what is committed"
    assert (why == told) == named
    assert [one.ended_by for one in _scope(found, "billing", 0)] == ["unknown"]


@pytest.mark.parametrize(("until", "named"), [(8_000, True), (5_000, False)])
def test_a_coordinator_that_was_down_for_most_of_it_is_named(until: int, named: bool, tmp_path: Path) -> None:
    """Broker 3, which leads no partition of the topic, is the coordinator of the producer's transactions."""
    history = _of_a_transaction(_history({0: 9_000, 1: 9_000}), 0, 20_000)
    for partition in range(2):
        history.led(1 + partition, 0, -50, [1, 2], kind="isr", partition=partition)
    history.acked(1, 0, 200, attempt_ns=at(100), done_ns=at(105))  # a producer without transactions
    history.fault(3, 3_000, until, target="transaction-coordinator-of producer 0", proven=True)
    history.blocks["billing"] = {"config": {"isolation.level": "read_committed"}}
    found = judged(history, tmp_path)
    (why,), (of_group,) = _whys(found, None), _whys(found, "billing")
    told = "the transaction coordinator of producer 0 was down for 5.0 s of it"
    opened = (
        "transaction 7 of producer 0 was open for 6.0 s of it, and the group reads only what is committed"
    )
    assert (why == told) == named
    assert of_group == (f"{opened}; {told}" if named else opened)


def test_no_coordinator_is_down_while_requests_of_clients_are_delayed(tmp_path: Path) -> None:
    """It answers all others, and aborts what has timed out."""
    history = _of_a_transaction(_history({0: 9_000, 1: 9_000}), 0, 20_000)
    for partition in range(2):
        history.led(1 + partition, 0, -50, [1, 2], kind="isr", partition=partition)
    target = "transaction-coordinator-of producer 0"
    step = {"at": "3s", "fault": "protocol", "target": target, "api": "Produce", "what": "delay"}
    history.faults.append({**step, "delay": "5s", "for": "5s"})
    history.fault(3, 3_000, 8_000, id="1-protocol", fault="protocol", target=target, proven=True)
    history.led(3, 0, -100, [1, 2, 3], topic="__transaction_state")
    assert "was down" not in str(_whys(judged(history, tmp_path), None))


@pytest.mark.parametrize(("led_again_ms", "named"), [(8_000, True), (5_500, False)])
def test_another_partition_of_the_transactions_that_had_no_leader_is_named(
    led_again_ms: int, named: bool, tmp_path: Path
) -> None:
    """For half of the silence of orders/0 or more; nothing waits in orders/1 meanwhile."""
    history = _of_a_transaction(_history({0: 9_000}), 0, 20_000)
    history.led(-1, 1, 3_000, [], partition=1).led(2, 2, led_again_ms, [2], partition=1)
    (why,) = _whys(judged(history, tmp_path), None)
    told = "orders/1, to which producer 0 sends in its transactions, had no leader that runs for 5.0 s of it"
    assert (why == told) == named


def _gone_back(pause_ms: int, times: int = 50, producers: int = 1) -> History:
    """At 5 s the group goes back to the first record, and is given some again, one every `pause_ms`."""
    history = History(
        producers=[{"topic": "orders", "acks": "all"}] * producers,
        topics=[{"name": "orders", "partitions": 1}],
        groups={"billing": True},
    )
    history.led(1, 0, -100, [1, 2, 3])
    again = [5_000 + pause_ms * number for number in range(1, times + 1)]
    for seq in range(150):
        ms, producer, own = 100 * seq, seq % producers, seq // producers
        shown = again[-1] + 1 if 5_000 <= ms < again[-1] else ms + 6
        history.acked(producer, own, seq, attempt_ns=at(ms), done_ns=at(ms + 5))
        history.handed(seq, producer, own, shown)
    for seq, ms in enumerate(again):
        history.handed(seq, seq % producers, seq // producers, ms)
    return history


def test_group_that_goes_back_waits_until_it_has_read_again(tmp_path: Path) -> None:
    (one,) = _scope(judged(_gone_back(100), tmp_path), "billing", 0)
    assert (one.from_ns, one.to_ns, one.ended_by) == (at(5_000), at(10_001), "reread")
    assert _waits(one.waited_for) == [("reread", 5_000, 10_000), ("client", 10_000, 10_001)]


def test_who_slows_a_follower_may_hold_up_a_group_that_reads_again(tmp_path: Path) -> None:
    history = _gone_back(100).fault(2, 1_000, 8_000, fault="bandwidth", id="1-bandwidth")
    (one,) = _scope(judged(history, tmp_path), "billing", 0)
    assert one.ended_by == "reread" and one.cause is not None and "1-bandwidth" in one.cause


def test_what_is_read_again_is_the_same_in_any_number_of_tasks(tmp_path: Path) -> None:
    """Two producers take turns, 0.8 s apart, and each has a task of its messages."""
    given = inputs.read(check(_gone_back(800, times=6, producers=2).read_to_end().write(tmp_path)))
    whole = plan(given.evidence)
    for parts in (Parts(1, 1), Parts(2, 1), Parts(3, 4)):
        counted = count(InProcess(), given, replace(whole, parts=parts), "messages")  # type: ignore[arg-type]
        (one,) = _scope(document.findings(counted, questions()), "billing", 0)
        assert _waits(one.waited_for) == [("reread", 5_000, 9_800), ("client", 9_800, 9_801)], parts


def test_less_than_a_second_of_old_records_decides_nothing(tmp_path: Path) -> None:
    """As after a rebalance, from the last commit on."""
    history = _gone_back(19)
    for row in history.rows["deliveries"]:
        if row["polled_ns"] == at(5_951):
            row["polled_ns"] = at(7_500)
    (one,) = _scope(judged(history, tmp_path), "billing", 0)
    assert (one.ended_by, one.waited_for) == ("unknown", [])
