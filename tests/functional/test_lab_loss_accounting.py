"""kaput.Lab sends, breaks and accounts: what its count says is what a plain reader finds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

import kaput
from waiting import PATIENCE_S, eventually

FAST_ELECTION = {"broker.session.timeout.ms": 3000, "broker.heartbeat.interval.ms": 500}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the lab keeps its own."""
    return tmp_path_factory.mktemp("lab")


@pytest.fixture(scope="module")
def lab(folders: Path) -> Iterator[kaput.Lab]:
    with kaput.lab(brokers=1, folder=folders, proxies="clients") as started:
        yield started


def stored(lab: kaput.Lab, topic: str) -> int:
    """How many records a plain consumer would be given."""
    consumer = Consumer({**lab.client_settings(), "group.id": "counter"})
    ends = [
        consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=PATIENCE_S)
        for partition in lab.partitions(topic)
    ]
    consumer.close()
    return sum(high - low for low, high in ends)


def test_sent_messages_are_numbered_and_accounted_for(lab: kaput.Lab, folders: Path) -> None:
    """Each call is a producer; the account can be asked for again, and is a run folder like any other."""
    lab.create_topic("orders", partitions=3)
    first = lab.produce("orders", 300)
    assert [message.seq for message in first.messages] == list(range(300))
    assert (first.acked, first.failed, first.unknown) == (300, 0, 0)
    assert lab.assert_none_lost().totals.sent == 300
    with lab.producing("orders", rate=500, transactions={"size": 10}) as second:
        with pytest.raises(kaput.UsageError, match="account for them when the block has ended"):
            lab.account()
        with pytest.raises(kaput.UsageError, match="producer 1 has not ended"):
            _ = second.messages
        assert eventually(lambda: stored(lab, "orders") > 350)
    found = lab.account()
    assert found.totals.sent == 300 + len(second.messages) and second.acked == len(second.messages)
    assert (found.lost, found.verdict) == (0, "held")
    assert folders in found.folder.parents and kaput.load(found.folder) == found


@pytest.mark.long
def test_messages_acked_only_by_a_deposed_leader_are_lost(tmp_path: Path) -> None:
    """The fault is in the account, with the loss it caused; the assertion says what was lost."""
    with kaput.lab(brokers=3, folder=tmp_path, config=FAST_ELECTION) as lab:
        _loses_what_only_its_leader_has(lab)


def _loses_what_only_its_leader_has(lab: kaput.Lab) -> None:
    lab.create_topic("risky", assignment=[[1, 2, 3]])
    lab.produce("risky", 100, acks="all")
    with lab.fault("pause", "broker 2"), lab.fault("pause", "broker 3"):
        lab.produce("risky", 1, acks=1)  # answers the fetches that wait at the leader
        alone = lab.produce("risky", 500, acks=1)
        kill = lab.inject("kill", "broker 1")
    assert eventually(lambda: lab.partitions("risky")[0].leader in (2, 3))
    lab.heal(kill)
    found = lab.account()
    # A follower that was paused between two fetches has not even the first.
    assert alone.acked == 500 and found.lost in (500, 501)
    assert stored(lab, "risky") == 601 - found.lost
    assert found.verdict == "held" and "acks=1 promises nothing" in " ".join(found.reasons)
    assert {fault.fault: fault.lost for fault in found.faults} == {"pause": 0, "kill": found.lost}
    with pytest.raises(
        AssertionError, match=rf"{found.lost} of \d+ acknowledged messages are lost:\n  producer"
    ):
        lab.assert_none_lost()


def test_invalid_producer_settings_are_rejected_before_sending(lab: kaput.Lab) -> None:
    """A topic that was not made here, a key that does not exist, another client; they are no producers."""
    lab.create_topic("mistaken")
    for settings, said in (
        ({"topic": "mistakes"}, "topic mistakes was not created with create_topic: did you mean mistaken"),
        ({"topic": "mistaken", "ack": 1}, "ack: no such key"),
        ({"topic": "mistaken", "count": 0}, "messages: 0 is not valid here"),
        ({"topic": "mistaken", "client": "java"}, "one librdkafka producer"),
    ):
        with pytest.raises(kaput.UsageError, match=said):
            lab.produce(**settings)
    number = lab.produce("mistaken", 5).producer
    assert lab.produce("mistaken", 5).producer == number + 1
    with pytest.raises(kaput.UsageError):
        lab.produce("mistaken", -1)
    assert lab.produce("mistaken", 5).producer == number + 2


def test_requests_get_an_error_on_a_standing_cluster(lab: kaput.Lab) -> None:
    """The heal says how many; none is no effect, and the cluster goes on."""
    options = {"api": "Produce", "what": "error", "error": "NOT_LEADER_OR_FOLLOWER"}
    lab.create_topic("refused")
    injected = lab.inject("protocol", "all", nth=1, **options)
    assert [fault.id for fault in lab.active_faults] == [injected.id]
    assert lab.produce("refused", count=10).acked == 10
    assert "1 answered with an error NOT_LEADER_OR_FOLLOWER" in lab.heal(injected).proof
    injected = lab.inject("protocol", "all", **options)
    with pytest.raises(kaput.FaultError, match=r"had no effect: .* nothing was done to any of them"):
        lab.heal(injected)
    assert lab.produce("refused", count=10).acked == 10
