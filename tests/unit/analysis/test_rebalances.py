"""Rebalances, lag, members and partition tables on histories written by hand, judged in this process."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from fakes.histories import History, at
from fakes.judging import findings_in, judged
from fakes.oracle_rebalances import Rebalances
from kaput.analysis.facts.rebalances import Rebalance, _may_have_begun

NOBODYS = {"topic": None, "partition": None}


def _group(partitions: int = 2) -> History:
    """Member m1 has joined and owns every partition; it was handed three records of partition 0."""
    history = History(topics=[{"name": "orders", "partitions": partitions}], groups={"billing": True})
    history.event("joined", 0, **NOBODYS)
    for partition in range(partitions):
        history.event("assigned", partition, 0, partition=partition)
    for seq in range(3):
        history.acked(0, seq, seq).handed(seq, 0, seq, 100 + seq)
    return history


def test_the_first_assignment_is_a_rebalance(tmp_path: Path) -> None:
    """From the first to the last partition; nothing had been anybody's, so nothing was nobody's."""
    (found,) = judged(_group(), tmp_path).rebalances
    assert (found.group, found.trigger, found.members) == ("billing", "m1 joined", 1)
    assert (found.started_ns, found.ended_ns) == (at(0), at(1))
    assert (found.unowned_partition_seconds, found.redelivered) == (0, 0)


def test_member_join_triggers_a_rebalance(tmp_path: Path) -> None:
    """It takes one partition over: nobody's for half a second, two offsets redelivered, all times told."""
    history = _group().event("revoked", 5000, partition=0)
    history.event("joined", 5500, member="m2", **NOBODYS).event("assigned", 5500, 1, member="m2")
    for seq in (1, 2):
        history.handed(seq, 0, seq, 5600 + seq, member="m2")
    found = judged(history, tmp_path).rebalances[1]
    assert (found.trigger, found.members, found.redelivered) == ("m2 joined", 2, 2)
    assert (found.started_ns, found.ended_ns) == (at(5000), at(5500))
    assert found.unowned_partition_seconds == 0.5
    assert [h.model_dump() for h in found.handovers] == [
        {"member": "m1", "revoked_ns": at(5000), "assigned_ns": None, "first_record_ns": None},
        {"member": "m2", "revoked_ns": None, "assigned_ns": at(5500), "first_record_ns": at(5601)},
    ]


def test_first_record_of_a_member_comes_after_its_last_assignment(tmp_path: Path) -> None:
    """It had the partition for a moment before, in the same rebalance."""
    history = _group().event("revoked", 5_000, partition=0)
    history.event("assigned", 5_500, 0, member="m2").handed(1, 0, 1, 5_600, member="m2")
    history.event("revoked", 5_700, partition=0, member="m2")
    history.event("assigned", 6_000, 0, member="m2").handed(2, 0, 2, 6_100, member="m2")
    _, given = judged(history, tmp_path).rebalances[1].handovers
    assert (given.revoked_ns, given.assigned_ns, given.first_record_ns) == (at(5_700), at(6_000), at(6_100))


def test_member_that_joined_soon_after_a_rebalance_triggers_the_next_one(tmp_path: Path) -> None:
    """It may have been part of the first, with nothing for it; in the second it is assigned a partition."""
    history = _group().event("joined", 900, member="m2", **NOBODYS).event("revoked", 2_700, partition=0)
    history.event("assigned", 3_000, 0, member="m2").handed(0, 0, 0, 3_100, member="m2")
    assert judged(history, tmp_path).rebalances[1].trigger == "m2 joined"


def test_killed_member_leaves_partitions_unowned(tmp_path: Path) -> None:
    """Its two partitions have no owner until another has them, ten seconds later."""
    history = _group().event("joined", 10, member="m2", **NOBODYS).event("killed", 5000, **NOBODYS)
    for partition in (0, 1):
        history.event("assigned", 15_000, 0, member="m2", partition=partition)
    history.handed(0, 0, 0, 15_001, member="m2")
    found = judged(history, tmp_path).rebalances[1]
    assert (found.trigger, found.members, found.redelivered) == ("m1 was killed", 1, 1)
    assert found.unowned_partition_seconds == 20


def test_rebalance_without_a_new_owner_has_no_end(tmp_path: Path) -> None:
    """The rebalance has no end, and the partition has no owner until that of the run."""
    history = _group(1).event("killed", 5000, **NOBODYS)
    found = judged(history, tmp_path).rebalances[1]
    assert (found.ended_ns, found.members, found.unowned_partition_seconds) == (None, 0, 3595)


def test_redelivery_to_the_same_owner_is_no_rebalance_effect(tmp_path: Path) -> None:
    """The member polls the same offsets again: redelivered, but because of no rebalance."""
    history = _group().handed(1, 0, 1, 300)
    findings = judged(history, tmp_path)
    assert findings.anomaly("redelivered")[0].count == 1
    assert [r.redelivered for r in findings.rebalances] == [0]


def test_the_end_of_a_group_is_no_rebalance(tmp_path: Path) -> None:
    """Members give up and leave after the last delivery; the second has the partitions for a moment."""
    history = _group().event("joined", 10, member="m2", **NOBODYS)
    history.event("revoked", 9000, partition=None).event("left", 9001, **NOBODYS)
    history.event("assigned", 9200, 3, member="m2").event("left", 9300, member="m2", **NOBODYS)
    assert len(judged(history, tmp_path).rebalances) == 1


def test_fault_is_the_trigger_without_a_membership_change(tmp_path: Path) -> None:
    """The broker's kill, within a minute; before that nothing is known."""
    history = _group().event("revoked", 5000, partition=0).event("assigned", 5100, 3, partition=0)
    history.event("revoked", 20_000, partition=0).event("assigned", 20_100, 3, partition=0)
    history.fault(1, 19_000, 100_000).handed(2, 0, 2, 30_000)
    found = judged(history, tmp_path).rebalances
    assert [r.trigger for r in found] == ["m1 joined", "unknown", "kill broker 1"]


def test_a_member_that_comes_back_is_the_trigger(tmp_path: Path) -> None:
    """It had lost everything before, while another had it; not if it is assigned something at once."""
    history = _group(1).event("joined", 10, member="m2", **NOBODYS)
    history.event("assigned", 5000, 3, member="m2").event("lost", 9000).event("refused", 9000, 3)
    history.event("revoked", 20_000, member="m2").event("assigned", 20_100, 3)
    history.event("lost", 30_000).event("assigned", 30_500, 3)
    findings = judged(history.handed(2, 0, 2, 31_000), tmp_path)
    assert [r.trigger for r in findings.rebalances][-2:] == ["m1 came back", "m1 lost its partitions"]
    assert {m.member: m.commits_refused for m in findings.groups[0].members} == {"m1": 1, "m2": 0}


def test_a_broker_that_stopped_is_the_trigger_where_no_fault_is(tmp_path: Path) -> None:
    """By the cluster's own events."""
    history = _group().event("revoked", 5000, partition=0).event("assigned", 5100, 3, partition=0)
    history.led(None, None, 4000, kind="stopped", broker=3, topic=None, partition=None)
    assert judged(history.handed(2, 0, 2, 6000), tmp_path).rebalances[1].trigger == "broker 3 stopped"


def test_members_including_idle_ones(tmp_path: Path) -> None:
    """Every member that is known, with the records that it was handed."""
    history = _group().event("joined", 10, member="m2", **NOBODYS).handed(0, 0, 0, 400, member="m3")
    (group,) = judged(history, tmp_path).groups
    assert {m.member: m.delivered for m in group.members} == {"m1": 3, "m2": 0, "m3": 1}
    assert group.type == "classic"


def test_final_and_maximum_lag(tmp_path: Path) -> None:
    """Final: end offsets minus the last commits, 0 where none is; max: the greatest sum of one moment."""
    history = _group().acked(0, 3, 0, partition=1).event("committed", 500, 3).event("committed", 600, 2)
    for ms, partition, lag in ((1, 0, 5.0), (1, 1, 2.0), (2, 0, 6.0)):
        labels = [("group", "billing"), ("topic", "orders"), ("partition", str(partition))]
        history.add("samples", at_ns=at(ms), source="kaput", name="lag", labels=labels, value=lag)
    (group,) = judged(history, tmp_path).groups
    assert (group.lag.max, group.lag.final) == (7, 2)
    assert group.longest_commit_gap_ms == 100


@pytest.mark.parametrize(("committed", "read_to", "behind"), [(3, 5, 2), (2, 5, 2), (4, 5, 1), (2, 3, 0)])
def test_what_is_not_committed_behind_the_last_record(
    committed: int, read_to: int, behind: int, tmp_path: Path
) -> None:
    """Offsets 3 and 4 are markers, if the log was read up to them."""
    history = _group(1).event("committed", 500, committed)
    history.add("end_offsets", topic="orders", partition=0, end_offset=5, drained_to=read_to)
    (group,) = findings_in(history.write(tmp_path)).groups
    assert (group.lag.final, group.lag.final_without_record) == (5 - committed, behind)


def test_without_commits_or_samples_no_lag_is_known(tmp_path: Path) -> None:
    (group,) = judged(_group(), tmp_path).groups
    assert (group.lag.max, group.lag.final, group.longest_commit_gap_ms) == (None, None, None)


def test_partition_tables_around_a_fault(tmp_path: Path) -> None:
    """Who led before the kill, just before its heal, and at the end."""
    history = _group(1).led(1, 0, -100, [1, 2, 3]).led(2, 1, 5500, [2, 3])
    history.led(2, 1, 9000, [2, 3, 1], kind="isr").fault(1, 5000, 8000)
    tables = judged(history, tmp_path).partition_tables
    assert [(t.when, t.at_ns) for t in tables] == [
        ("before", at(5000)),
        ("during", at(8000)),
        ("after", at(3_600_000)),
    ]
    rows = [t.partitions[0] for t in tables]
    assert [(p.leader, p.leader_epoch, p.isr) for p in rows] == [
        (1, 0, [1, 2, 3]),
        (2, 1, [2, 3]),
        (2, 1, [2, 3, 1]),
    ]
    assert all(p.replicas == [1, 2, 3] for p in rows)


def test_group_shutdown_soon_after_a_rebalance_is_separate(tmp_path: Path) -> None:
    """Half a second after a member took the partition over both leave: it was unowned for half a second."""
    history = _group(1).event("joined", 1900, member="m2", **NOBODYS).event("revoked", 2000)
    history.event("assigned", 2500, 0, member="m2").handed(2, 0, 2, 2600, member="m2")
    history.event("revoked", 2900, member="m2").event("left", 2901, member="m2", **NOBODYS)
    history.event("left", 2902, **NOBODYS)
    _, found = judged(history, tmp_path).rebalances
    assert (found.started_ns, found.ended_ns) == (at(2000), at(2500))
    assert (found.unowned_partition_seconds, found.members) == (0.5, 2)


def test_revocation_before_later_deliveries_is_no_shutdown(tmp_path: Path) -> None:
    """The same with a delivery in between: the partition has no owner until the end of the run."""
    history = _group(1).event("joined", 1900, member="m2", **NOBODYS).event("revoked", 2000)
    history.event("assigned", 2500, 0, member="m2").handed(2, 0, 2, 3000, member="m2")
    history.event("revoked", 2900, member="m2").event("left", 2901, member="m2", **NOBODYS)
    found = judged(history, tmp_path).rebalances[-1]
    assert (found.started_ns, found.ended_ns) == (at(2000), None)


def _hit(target: str, fault: str = "pause", group: str = "orders") -> History:
    """A group that loses its partition and gets it back, 2 s after a fault."""
    history = History(topics=[{"name": "orders"}, {"name": "orders-audit"}], groups={group: True})
    history.acked(0, 0, 0)
    for kind, ms in (("assigned", 0), ("revoked", 7000), ("assigned", 7500)):
        history.event(kind, ms, group=group)
    hit = {"id": "1", "fault": fault, "target": target, "bit": True, "proof": "seen", "brokers": []}
    history.add("faults", **hit, injected_ns=at(5000), effective_ns=at(5000), healed_ns=at(6000))
    return history.handed(0, 0, 0, 8000, group=group)


@pytest.mark.parametrize(
    ("target", "fault", "trigger"),
    [
        ("member 1 of orders", "pause", "end of pause member 1 of orders"),
        ("members 1, 2 of orders", "pause", "end of pause members 1, 2 of orders"),
        ("members of orders", "pause", "end of pause members of orders"),
        ("member 1 of orders-audit", "pause", "unknown"),
        ("any member of my orders", "pause", "unknown"),
        ("topic orders", "resize", "resize topic orders"),
        ("topic orders-audit", "resize", "unknown"),
    ],
)
def test_fault_is_the_trigger_only_for_its_targets(
    target: str, fault: str, trigger: str, tmp_path: Path
) -> None:
    """By whole names, whatever else has them as a part of its own."""
    assert judged(_hit(target, fault), tmp_path).rebalances[1].trigger == trigger


@pytest.mark.parametrize(
    ("unfenced", "trigger"),
    [(6_500, "end of kill broker 1"), (9_000, "kill broker 1"), (None, "end of kill broker 1")],
)
def test_killed_broker_is_back_when_it_is_unfenced(
    unfenced: int | None, trigger: str, tmp_path: Path
) -> None:
    """Killed at 5 s, its process started at 6 s, the group's partition revoked at 7 s."""
    history = _hit("broker 1", "kill")
    history.rows["faults"][0]["brokers"] = [1]
    if unfenced is not None:
        history.add("cluster_events", kind="unfenced", broker=1, at_ns=at(unfenced), source="history")
    assert judged(history, tmp_path).rebalances[1].trigger == trigger


def test_share_group_redelivery_is_not_attributed_to_a_rebalance(tmp_path: Path) -> None:
    """A record that was released is handed out again whoever has the partition."""
    history = History(groups={"billing": True}, blocks={"billing": {"type": "share"}}).acked(0, 0, 0)
    history.event("assigned", 0).shared("acquired", 0, 1, 1).shared("released", 0, 2)
    history.event("revoked", 5000).event("assigned", 5500, member="m2")
    history.shared("acquired", 0, 5600, 2, member="m2").shared("accepted", 0, 5601, member="m2")
    assert [one.redelivered for one in judged(history, tmp_path).rebalances] == [0, 0]


@pytest.mark.parametrize("seeds", [range(12), pytest.param(range(12, 30), marks=pytest.mark.long)])
def test_rebalances_equal_oracle(seeds: range, tmp_path: Path) -> None:
    """Drawn events and deliveries, sound or not, against the oracle."""
    for seed in seeds:
        history = drawn(seed)
        found = judged(history, tmp_path / str(seed)).rebalances
        told = [
            {
                "started_ns": one.started_ns,
                "ended_ns": one.ended_ns,
                "members": one.members,
                "unowned": round(one.unowned_partition_seconds, 6),
                "redelivered": one.redelivered,
                "resumed_ns": one.resumed_ns,
                "unresumed_partitions": one.unresumed_partitions,
            }
            for one in found
        ]
        assert told == Rebalances(history, "billing").expected(), seed


def drawn(seed: int) -> History:
    """Events and deliveries of three members and three partitions."""
    random = Random(seed)
    history = History(topics=[{"name": "orders", "partitions": 3}], groups={"billing": True})
    kinds = ("joined", "assigned", "assigned", "assigned", "revoked", "lost", "left", "killed")
    for _ in range(random.randint(0, 14)):
        kind, ms = random.choice(kinds), random.randint(0, 40) * 250
        whole = kind in ("joined", "left", "killed") or random.random() < 0.2
        where = NOBODYS if whole else {"partition": random.randint(0, 2)}
        history.event(kind, ms, member=f"member-{random.randint(1, 3)}", **where)
    for _ in range(random.randint(0, 3)):
        target = f"member {random.randint(1, 3)} of {random.choice(['billing', 'billing', 'audit'])}"
        ms = 250 * random.randint(0, 30)
        history.fault(0, ms, ms + 2_000, fault="pause", target=target, id=f"{ms}-{random.random()}")
        history.rows["faults"][-1]["brokers"] = []
    history.acked(0, 0, 0)
    for _ in range(random.randint(0, 25)):
        where = {"member": f"member-{random.randint(1, 3)}", "partition": random.randint(0, 1)}
        offset = random.randint(0, 3)
        history.handed(offset, 0, offset, random.randint(0, 42) * 250, **where)
    return history


def test_added_partitions_are_a_separate_rebalance(tmp_path: Path) -> None:
    """The first is over though there are partitions that nobody was assigned yet; the resizing is named."""
    history = _group(2).event("revoked", 9000, partition=None)
    history.event("assigned", 9000, 3, partition=0).event("assigned", 9000, 0, partition=1)
    history.event("assigned", 9100, 0, partition=2).handed(2, 0, 2, 9200)
    grown = {"id": "1-resize", "fault": "resize", "target": "topic orders", "bit": True, "proof": "3 now"}
    history.add(
        "faults", **grown, brokers=[], injected_ns=at(8000), effective_ns=at(9050), healed_ns=at(9050)
    )
    first, second = judged(history, tmp_path).rebalances
    assert (first.ended_ns, first.trigger) == (at(1), "m1 joined")
    assert (second.started_ns, second.ended_ns) == (at(9000), at(9100))
    assert second.trigger == "resize topic orders"


def test_partitions_that_are_new_to_a_group_are_the_trigger(tmp_path: Path) -> None:
    """A topic that grew without a fault, minutes after the group had the rest of it, and another that is
    first assigned with it.
    """
    history = _group(3)
    history.rows["group_events"].pop()  # its last partition comes later
    history.event("revoked", 90_000, partition=None).event("assigned", 90_000, 3, partition=0)
    for partition in (1, 2):
        history.event("assigned", 90_000, 0, partition=partition)
    history.event("assigned", 90_010, 0, topic="refunds", partition=0).handed(2, 0, 2, 90_200)
    first, second = judged(history, tmp_path).rebalances
    assert first.trigger == "m1 joined"
    assert second.trigger == "partitions new to the group: 1 of orders, 1 of refunds"


def test_anomalies_are_attributed_to_members(tmp_path: Path) -> None:
    """m1 jumps over a record and commits it; m2 has that and the next, of a partition that is not its own."""
    history = _group(1).acked(0, 3, 3).acked(0, 4, 4).handed(4, 0, 4, 200).event("committed", 300, 5)
    history.handed(3, 0, 3, 400, member="m2").handed(4, 0, 4, 401, member="m2")
    (group,) = judged(history, tmp_path).groups
    assert {m.member: m.anomalies for m in group.members} == {
        "m1": {"redelivered": 1, "poll-skip": 1, "commit-ahead": 1},
        "m2": {"redelivered": 1, "unassigned-delivery": 2},
    }


def _zombie(name: str = "member-1", target: str = "member 1 of billing") -> History:
    """Two partitions; their member is frozen from 5 to 17 s, another has them from 11.8 s on."""
    history = History(topics=[{"name": "orders", "partitions": 2}], groups={"billing": True})
    for number, member in ((0, name), (1, "member-2")):
        history.event("joined", number, member=member, **NOBODYS)
    for partition in (0, 1):
        history.event("assigned", 10, 0, member=name, partition=partition)
        history.event("assigned", 11_842, 0, member="member-2", partition=partition)
        for seq in range(2):
            where = {"partition": partition}
            history.acked(0, 2 * seq + partition, seq, **where)
            history.handed(seq, 0, 2 * seq + partition, 4_990 + seq, member=name, **where)
        history.event("lost", 17_024, member=name, partition=partition)
    history.handed(0, 0, 0, 11_850, member="member-2").handed(1, 0, 2, 17_010, member=name)
    history.handed(0, 0, 1, 13_050, member="member-2", partition=1)
    history.fault(0, 5_000, 17_000, fault="pause", target=target)
    history.rows["faults"][-1] |= {"brokers": [], "injected_ns": at(4_999)}
    return history


def test_rebalance_begins_with_the_loss_of_a_frozen_member(tmp_path: Path) -> None:
    """It cannot give anything up: unread from when it was frozen to the first record from each partition, for
    6.85 and 8.05 s. That it learns of it later is no rebalance.
    """
    _, found = judged(_zombie(), tmp_path).rebalances
    assert (found.started_ns, found.ended_ns, found.resumed_ns) == (at(5_000), at(11_842), at(13_050))
    assert found.took_ns == at(13_050) - at(5_000)
    assert found.unowned_partition_seconds == pytest.approx(2 * 6.842)
    assert (found.trigger, found.unresumed_partitions) == ("pause member 1 of billing", 0)


@pytest.mark.parametrize(
    ("name", "target", "started_ms"),
    [
        ("member-1.2", "member 1 of billing", 5_000),
        ("member-1", "members 1, 3 of billing", 5_000),
        ("m1", "members of billing", 5_000),
        ("m1", "member 1 of billing", 11_842),
        ("member-1", "member 2 of billing", 11_842),
        ("member-1", "member 1 of audit", 11_842),
        ("member-11", "member 1 of billing", 11_842),
    ],
)
def test_frozen_member_is_known_by_its_name(name: str, target: str, started_ms: int, tmp_path: Path) -> None:
    """Of the others it is not known that they were lost before another had their partitions."""
    found = judged(_zombie(name, target), tmp_path).rebalances[1]
    assert found.started_ns == at(started_ms)


def test_rebalance_lasts_until_each_partition_is_read_again(tmp_path: Path) -> None:
    """Assigned 6 ms after it was given up, and read 6.4 s later; the other had nothing to deliver."""
    history = _group().event("revoked", 5_000, partition=None)
    for partition in (0, 1):
        history.event("assigned", 5_006, 3, member="m2", partition=partition)
    history.handed(2, 0, 2, 11_400, member="m2").handed(2, 0, 2, 4_000)
    found = judged(history, tmp_path).rebalances[1]
    assert (found.ended_ns, found.resumed_ns, found.unresumed_partitions) == (at(5_006), at(11_400), 1)
    assert found.took_ns == at(11_400) - at(5_000)


def test_first_assignment_is_read_again_by_nobody(tmp_path: Path) -> None:
    """No partition had an owner, however late the load begins."""
    (found,) = judged(_group(), tmp_path).rebalances
    assert (found.resumed_ns, found.unresumed_partitions, found.took_ns) == (None, 0, 1_000_000)


def test_a_first_owner_within_a_rebalance_reads_nothing_again(tmp_path: Path) -> None:
    """The topic got a partition, which changed its owner at once and was read 6 s later."""
    history = _group().event("revoked", 5_000).event("assigned", 5_100, 3, member="m2")
    history.event("assigned", 5_100, partition=2).event("revoked", 5_200, partition=2)
    history.event("assigned", 5_300, member="m2", partition=2)
    history.handed(2, 0, 2, 5_700, member="m2").acked(0, 3, 0, partition=2)
    history.handed(3, 0, 0, 11_400, member="m2", partition=2)
    found = judged(history, tmp_path).rebalances[1]
    assert (found.ended_ns, found.resumed_ns, found.unresumed_partitions) == (at(5_300), at(5_700), 0)


def test_partition_is_read_again_by_its_last_owner(tmp_path: Path) -> None:
    """One member was handed a message and gave the partition up again within the same rebalance."""
    history = _group().event("revoked", 5_000).event("assigned", 5_100, 1, member="m2")
    history.handed(1, 0, 1, 5_200, member="m2").event("revoked", 5_300, member="m2", partition=0)
    history.event("assigned", 5_400, 2, member="m3", partition=0).handed(2, 0, 2, 9_000, member="m3")
    found = judged(history, tmp_path).rebalances[1]
    assert (found.ended_ns, found.resumed_ns, found.unresumed_partitions) == (at(5_400), at(9_000), 0)


def test_the_next_process_of_a_member_began_no_rebalance_in_which_that_one_gave_up(tmp_path: Path) -> None:
    """Stopped at 4.9 s, a member had left 1.3 s after it gave up its partitions; it was back much later."""
    stop = {"fault": "stop", "target": "member 1 of billing", "id": "1-stop"}
    history = _group(1).fault(1, 4_900, 33_000, **stop).event("revoked", 5_000)
    history.event("left", 6_300, **NOBODYS)
    history.rows["faults"][0]["brokers"] = []
    history.event("joined", 33_000, member="m1.2", **NOBODYS).event("assigned", 33_000, 3, member="m1.2")
    history.handed(2, 0, 2, 33_100, member="m1.2")
    assert judged(history, tmp_path).rebalances[1].trigger == "stop member 1 of billing"


@pytest.mark.parametrize(
    ("joined_ms", "trigger"), [(19_999, "m2 joined"), (20_000.9, "m2 joined"), (20_099, "m2 joined")]
)
def test_join_recorded_around_the_first_change_is_the_trigger(
    joined_ms: float, trigger: str, tmp_path: Path
) -> None:
    """A member may record it only when it is assigned something."""
    history = _group(1).event("joined", joined_ms, member="m2", **NOBODYS).event("revoked", 20_000)
    history.event("assigned", 20_100, 3, member="m2").handed(2, 0, 2, 21_000, member="m2")
    assert judged(history, tmp_path).rebalances[1].trigger == trigger


def test_join_soon_after_a_rebalance_triggers_the_next(tmp_path: Path) -> None:
    """It is within a second of the first, in which it was assigned nothing."""
    history = _group(1).event("joined", 999, member="m2", **NOBODYS).event("revoked", 1_001)
    history.event("assigned", 1_500, 3, member="m2").handed(2, 0, 2, 2_000, member="m2")
    assert judged(history, tmp_path).rebalances[1].trigger == "m2 joined"


def test_idle_member_triggers_a_rebalance_when_it_joins(tmp_path: Path) -> None:
    """There is one partition, which stays where it was; the newcomer records that it joined afterwards, and
    does not begin what happens much later.
    """
    history = _group(1).event("revoked", 20_000).event("assigned", 20_031, 3)
    history.event("joined", 20_032, member="m2", **NOBODYS).event("revoked", 30_000)
    history.event("assigned", 30_100, 3).handed(2, 0, 2, 31_000)
    assert [one.trigger for one in judged(history, tmp_path).rebalances] == [
        *("m1 joined", "m2 joined", "unknown")
    ]


@pytest.mark.parametrize(
    ("injected_ms", "effective_ms", "trigger"),
    [
        (19_990, 20_001, "kill broker 1"),  # it took hold between its injection and the proof
        (20_000.9, 20_001, "kill broker 1"),  # some records have a resolution of 1 ms
        (20_001, 20_002, "unknown"),
        (9_990, 10_001, "kill broker 1"),
        (9_990, 9_999, "unknown"),  # longer ago than a session lasts
    ],
)
def test_trigger_precedes_the_rebalance_within_the_session(
    injected_ms: float, effective_ms: float, trigger: str, tmp_path: Path
) -> None:
    """10 s in this group."""
    history = _group(1).event("revoked", 20_000).event("assigned", 20_100, 3).handed(2, 0, 2, 30_000)
    history.blocks = {"billing": {"config": {"session.timeout.ms": 10_000}}}
    history.fault(1, injected_ms, 100_000, effective_ns=at(effective_ms))
    assert judged(history, tmp_path).rebalances[1].trigger == trigger


def test_the_last_record_before_a_rebalance_is_its_trigger(tmp_path: Path) -> None:
    """Somebody joined long before the kill, without any effect."""
    history = _group(1).event("joined", 5_000, member="m2", **NOBODYS).fault(1, 19_500, 100_000)
    history.event("revoked", 20_000).event("assigned", 20_100, 3).handed(2, 0, 2, 30_000)
    assert judged(history, tmp_path).rebalances[1].trigger == "kill broker 1"


def test_death_during_a_rebalance_did_not_begin_it(tmp_path: Path) -> None:
    """The partition has no owner for half a minute because of a broker; a member dies meanwhile."""
    history = _group(1).event("joined", 1, member="m2", **NOBODYS).fault(1, 19_500, 100_000)
    history.event("revoked", 20_000).event("killed", 40_000, member="m2", **NOBODYS)
    history.event("assigned", 50_000, 3).handed(2, 0, 2, 60_000)
    assert judged(history, tmp_path).rebalances[1].trigger == "kill broker 1"


@pytest.mark.parametrize(("left_ms", "trigger"), [(20_900, "m1 left"), (22_000, "kill broker 1")])
def test_member_that_left_within_a_second_of_giving_up_is_the_trigger(
    left_ms: int, trigger: str, tmp_path: Path
) -> None:
    """It loses the partition at 20 s, and has it again before it leaves; another gets it long after that."""
    history = _group(1).fault(1, 19_500, 100_000).event("lost", 20_000)
    history.event("assigned", left_ms - 400, 3)
    history.event("revoked", left_ms - 1).event("left", left_ms, **NOBODYS)
    history.event("joined", 30_000, member="m2", **NOBODYS).event("assigned", 30_000, 3, member="m2")
    history.handed(2, 0, 2, 31_000, member="m2")
    assert judged(history, tmp_path).rebalances[1].trigger == trigger


@pytest.mark.parametrize(("revoked_ms", "begun"), [(20_000, False), (20_900, True)])
def test_next_process_of_a_place_did_not_begin_what_the_one_before_gave_up_in(
    revoked_ms: int, begun: bool
) -> None:
    """Unless that was later."""
    rebalance = Rebalance("g", at(20_000))
    rebalance.revoked.update({"member-1": at(revoked_ms)})
    joined = {"kind": "joined", "member": "member-1.1", "at_ns": at(20_500)}
    assert _may_have_begun(rebalance, joined) == begun


def test_a_moved_group_owns_partitions_where_it_is(tmp_path: Path) -> None:
    """1.09 s after it gave up those of the first cluster it has those of the second."""
    history = History(
        clusters={"dc1": {}, "dc2": {}},
        topics=[{"name": "orders", "partitions": 2}],
        mirrors=[{"from": "dc1", "to": "dc2", "topics": ["orders"], "groups": ["billing"]}],
        groups={"billing": True},
    )
    for seq in range(2):
        history.sent(0, seq, seq, cluster="dc1").stored(seq, 0, seq, cluster="dc1")
        history.stored(seq, 0, seq, cluster="dc2")
    for cluster, ms in (("dc1", 0), ("dc2", 6_090)):
        history.event("joined", ms, cluster=cluster, **NOBODYS)
        for partition in (0, 1):
            history.event("assigned", ms + partition, 0, partition=partition, cluster=cluster)
    history.event("revoked", 5_000, partition=None, cluster="dc1").event(
        "left", 5_001, cluster="dc1", **NOBODYS
    )
    history.handed(0, 0, 0, 100, cluster="dc1").handed(1, 0, 1, 6_500, cluster="dc2")
    _, found = judged(history, tmp_path).rebalances
    assert (found.started_ns, found.ended_ns, found.resumed_ns) == (at(5_000), at(6_091), at(6_500))
    assert (found.unowned_partition_seconds, found.unresumed_partitions) == (pytest.approx(2 * 1.09), 1)
    assert found.trigger == "the group was moved to dc2"


@pytest.mark.parametrize(
    ("static", "member", "stayed"), [(True, "m1.2", True), (True, "m2", False), (False, "m1.2", False)]
)
def test_restart_of_a_static_member_moves_nothing(
    static: bool, member: str, stayed: bool, tmp_path: Path
) -> None:
    """Its partitions went back to the next process in its place, and the report says so."""
    history = _group().event("left", 5_000, **NOBODYS).event("joined", 7_000, member=member, **NOBODYS)
    for partition in range(2):
        history.event("assigned", 7_001, 0, member=member, partition=partition)
    history.handed(2, 0, 2, 7_100, member=member)
    history.blocks["billing"] = {"static": static}
    for row in [*history.rows["group_events"], *history.rows["deliveries"]]:
        row["member"] = f"unknown.{row['member']}"  # names of members may be anything
    found = judged(history, tmp_path)
    words = "unknown.m1 left" + (" (static: each partition went back to the member that had it)" * stayed)
    assert found.rebalances[1].trigger == words
    assert [one.decidable for one in found.claims if one.why == f"trigger: {words}"] == [True]
