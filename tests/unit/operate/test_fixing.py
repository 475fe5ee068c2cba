"""What the doctor can mend, on pictures; and that it says of everything else why not."""

from __future__ import annotations

from dataclasses import replace

from kaput.cluster.placement import Goal
from kaput.operate.doctor.checks import CHECKS
from kaput.operate.doctor.diagnosis import diagnose
from kaput.operate.doctor.fixing import NOT_FIXABLE, Fix, Remedies, remedies
from kaput.operate.doctor.snapshot import (
    Broker,
    ClusterSnapshot,
    InterruptedReassignment,
    Replicas,
    TopicState,
)

CAN = {"KP001", "KP002", "KP003", "KP004", "KP006", "KP007", "KP008", "KP022", "KP023"}


def cluster(*topics: TopicState, brokers: int = 3) -> ClusterSnapshot:
    return ClusterSnapshot([Broker(number, None, {}) for number in range(1, brokers + 1)], topics)


def topic(name: str = "orders", replicas: tuple[int, ...] = (1, 2, 3), **config: str) -> TopicState:
    """One partition, all of it in sync."""
    settings = {key.replace("_", "."): value for key, value in config.items()}
    return TopicState(name, [Replicas(0, replicas[0], replicas, replicas)], settings)


def found(snapshot: ClusterSnapshot) -> Remedies:
    """The remedies for all that the doctor finds there."""
    return remedies(snapshot, diagnose(snapshot))


def kinds(snapshot: ClusterSnapshot) -> list[tuple[tuple[str, ...], Goal | None, dict[str, dict[str, str]]]]:
    """What would be done, in order."""
    every: list[Fix] = list(found(snapshot).fixes)
    return [(fix.topics, fix.goal, {name: dict(c) for name, c in fix.configs.items()}) for fix in every]


def test_every_check_is_fixable_or_has_a_reason() -> None:
    """None is forgotten, and none is both."""
    every = {check.id for check in CHECKS}
    assert every == CAN | set(NOT_FIXABLE) and not CAN & set(NOT_FIXABLE)


def test_one_replica_becomes_three_with_min_isr_two() -> None:
    """In this order; Kafka's own topics get replicas alone."""
    snapshot = cluster(topic(replicas=(1,)), topic("__consumer_offsets", (1,)))
    assert kinds(snapshot) == [
        (("__consumer_offsets", "orders"), Goal(3), {}),
        (("orders",), None, {"orders": {"min.insync.replicas": "2"}}),
    ]


def test_two_brokers_allow_two_replicas() -> None:
    """More cannot be had, and no min.insync.replicas suits two."""
    snapshot = cluster(topic(replicas=(1,)), brokers=2)
    assert kinds(snapshot) == [(("orders",), Goal(2), {})]
    for least in ("1", "2"):
        snapshot = cluster(topic(replicas=(1, 2), min_insync_replicas=least), brokers=2)
        (left,) = [(each.id, why) for each, why in found(snapshot).cannot if each.id in ("KP002", "KP003")]
        assert "add a third broker" in left[1] and kinds(snapshot) == []


def test_two_replicas_become_three_where_there_are_three_brokers() -> None:
    """Either way, whatever min.insync.replicas was."""
    for least, wanted in (("1", {"orders": {"min.insync.replicas": "2"}}), ("2", None)):
        snapshot = cluster(topic(replicas=(1, 2), min_insync_replicas=least))
        expected = [(("orders",), Goal(3), {})]
        assert kinds(snapshot) == ([*expected, (("orders",), None, wanted)] if wanted else expected)


def test_min_isr_of_all_replicas_is_lowered_by_one() -> None:
    """With three replicas, two; with five, four."""
    assert kinds(cluster(topic(min_insync_replicas="3"))) == [
        (("orders",), None, {"orders": {"min.insync.replicas": "2"}})
    ]
    five = topic(replicas=(1, 2, 3, 4, 5), min_insync_replicas="5")
    assert kinds(cluster(five, brokers=5)) == [(("orders",), None, {"orders": {"min.insync.replicas": "4"}})]


def test_min_isr_of_internal_topics_is_lowered_too() -> None:
    """One that was set like that is mended as any other, and not passed over in silence."""
    snapshot = cluster(topic("__consumer_offsets", min_insync_replicas="3"))
    assert kinds(snapshot) == [
        (("__consumer_offsets",), None, {"__consumer_offsets": {"min.insync.replicas": "2"}})
    ]


def test_unclean_leader_election_is_disabled() -> None:
    """For the topic, wherever it was switched on."""
    snapshot = cluster(topic(min_insync_replicas="2", unclean_leader_election_enable="true"))
    assert kinds(snapshot) == [(("orders",), None, {"orders": {"unclean.leader.election.enable": "false"}})]


def test_leaders_are_balanced_by_a_preferred_election() -> None:
    led = TopicState("orders", [Replicas(0, 2, (1, 2, 3), (1, 2, 3))], {"min.insync.replicas": "2"})
    assert kinds(cluster(led)) == [(("orders",), Goal(), {})]


def test_replicas_on_one_rack_are_spread() -> None:
    brokers = [Broker(number, "a" if number < 4 else "b", {}) for number in (1, 2, 3, 4)]
    snapshot = replace(cluster(topic(min_insync_replicas="2")), brokers=brokers)
    assert kinds(snapshot) == [(("orders",), Goal(spread_racks=True), {})]


def test_leftover_throttles_are_removed() -> None:
    """Of brokers and topics, and only where there are any."""
    throttled = topic(min_insync_replicas="2", follower_replication_throttled_replicas="0:1")
    rate = "follower.replication.throttled.rate"
    snapshot = replace(
        cluster(throttled, topic("bills", min_insync_replicas="2")),
        brokers=[Broker(1, None, {rate: "50000000"}), Broker(2, None, {}), Broker(3, None, {})],
    )
    (fix,) = found(snapshot).fixes
    assert fix.configs == {"orders": {"follower.replication.throttled.replicas": None}}
    assert fix.brokers == {"1": {rate: None}} and fix.ids == ("KP022",)
    assert found(replace(snapshot, moving=True)).fixes == []


def test_interrupted_reassignment_blocks_other_fixes() -> None:
    """Nothing else is applied before it, and everything else has that as its reason."""
    snapshot = replace(
        cluster(topic(replicas=(1,), unclean_leader_election_enable="true")),
        interrupted=InterruptedReassignment(4, 50_000_000, "/before.json"),
    )
    assert found(snapshot).fixes == []
    assert {(each.id, why) for each, why in found(snapshot).cannot} == {
        (number, "resume or undo the interrupted reassignment first") for number in ("KP001", "KP004")
    }


def test_single_broker_cannot_get_a_second_replica() -> None:
    """There is only one broker a second replica."""
    snapshot = cluster(topic(replicas=(1,)), brokers=1)
    assert found(snapshot).fixes == []
    assert [why for each, why in found(snapshot).cannot if each.id == "KP001"] == [
        "there is only one broker: add one for a second replica (kaput grow)"
    ]


def test_missing_broker_is_not_fixed_by_adding_one() -> None:
    """It is to come back; to add another one is no advice."""
    snapshot = cluster(topic(replicas=(2,)), brokers=1)
    assert [why for each, why in found(snapshot).cannot if each.id == "KP001"] == [
        "a broker is missing: bring it back"
    ]


def test_isr_that_is_too_small_is_fixed_by_its_brokers() -> None:
    """A topic with all of its replicas in sync is not one of these, whatever its min.insync.replicas."""
    alone = topic(replicas=(1,), min_insync_replicas="2")
    assert {each.id for each, _ in found(cluster(alone, brokers=1)).cannot} == {"KP001"}
    short = TopicState("orders", [Replicas(0, 1, (1, 2, 3), (1,))], {"min.insync.replicas": "2"})
    assert [why for each, why in found(cluster(short)).cannot if each.id == "KP010"] == [
        "a broker is missing: bring it back"
    ]


def test_unfixable_finding_has_a_reason() -> None:
    snapshot = replace(cluster(topic(min_insync_replicas="2")), client={"acks": "1"})
    assert [(each.id, why) for each, why in found(snapshot).cannot] == [
        ("KP017", "it is a setting of your client")
    ]
