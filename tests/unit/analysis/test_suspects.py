"""Producers whose acknowledgements cannot be Kafka's; histories by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fakes.histories import History, at
from fakes.judging import findings_in, judged


def _killed(acks: str = "all", **fault: Any) -> History:
    """Broker 1 leads and is killed from 1,000 to 5,000 ms; broker 2 is elected at 3,000 ms."""
    producer = {"topic": "orders", "acks": acks, "client": "command", "command": "liar"}
    history = History(producers=[producer]).led(1, 0, -100, [1, 2]).led(2, 1, 3_000, [2])
    return history.fault(1, 1_000, 5_000, **fault)


def _sent(history: History, seq: int, attempt: float, done: float, **more: Any) -> History:
    return history.acked(0, seq, seq, attempt_ns=at(attempt), done_ns=at(done), **more)


def test_ack_without_a_running_leader_is_suspect(tmp_path: Path) -> None:
    """Only what was attempted and acknowledged between the kill and the election."""
    history = _killed()
    times = [(900, 950), (999, 1_001), (1_000, 1_001), (2_000, 3_000), (2_999, 3_001), (3_001, 3_002)]
    for seq, (attempt, done) in enumerate(times):
        _sent(history, seq, attempt, done)
    found = judged(history, tmp_path)
    (suspect,) = found.suspects
    assert (suspect.producer, suspect.client, suspect.acked_leaderless) == (0, "command", 2)
    assert suspect.story in found.notes
    assert suspect.story == (
        "Suspect the client program of producer 0 (command), not Kafka: 2 messages were "
        "sent and acknowledged while their partition had no running leader."
    )


@pytest.mark.parametrize(
    "history",
    [
        _killed("0"),
        _killed(fault="isolate"),
        _killed(bit=False),
        _killed().led(1, 1, 1_100, [1]),
        _killed().add("cluster_events", kind="started", broker=1, at_ns=at(1_100), source="lab"),
    ],
    ids=["acks=0", "its process runs", "not proven", "elected before", "started before"],
)
def test_ack_possibly_given_by_a_broker_is_not_suspect(history: History, tmp_path: Path) -> None:
    """Some broker may have acknowledged it, or none had to."""
    assert judged(_sent(history, 0, 2_000, 2_001), tmp_path).suspects == []


@pytest.mark.parametrize(
    ("client", "offset", "suspected"),
    [("command", None, 3), ("command", 0, 0), ("librdkafka", None, 0), ("java", None, 0)],
)
def test_unexplained_loss_without_offset_is_suspect(
    client: str, offset: int | None, suspected: int, tmp_path: Path
) -> None:
    """Messages that were never sent; one with an offset may have been Kafka's, and known clients have none
    for what a broker had already.
    """
    producer = {"topic": "orders", "acks": "all", "client": client}
    history = History(producers=[producer | ({"command": "liar"} if client == "command" else {})])
    history.acked(0, 0, 0)
    for seq in range(1, 4):
        history.sent(0, seq, None if offset is None else seq)
    found = judged(history, tmp_path)
    assert found.lost == 3
    assert [one.lost_without_offset for one in found.suspects] == ([suspected] if suspected else [])


@pytest.mark.parametrize(
    ("attempt", "done", "suspected"),
    [
        *((1_000, 1_000, True), (1_000, 1_001, True), (2_999, 3_000, True)),
        *((999, 1_000, False), (2_999, 3_001, False), (3_000, 3_001, False)),
    ],
)
def test_leaderless_interval_includes_its_edges(
    attempt: float, done: float, suspected: bool, tmp_path: Path
) -> None:
    """The moments at which that time begins and ends are in it."""
    found = judged(_sent(_killed(), 0, attempt, done), tmp_path)
    assert [one.acked_leaderless for one in found.suspects] == ([1] if suspected else [])


def test_leaderless_interval_without_an_election_is_open_ended(tmp_path: Path) -> None:
    """Nothing tells of an election, of a start or of a heal."""
    producer = {"topic": "orders", "acks": "all"}
    history = History(producers=[producer]).led(1, 0, -100, [1, 2]).fault(1, 1_000)
    (suspect,) = judged(_sent(history, 0, 900_000, 900_001), tmp_path).suspects
    assert (suspect.client, suspect.acked_leaderless) == ("librdkafka", 1)


def test_loss_with_acks_0_is_not_suspect(tmp_path: Path) -> None:
    """Its loss has a cause."""
    producer = {"topic": "orders", "acks": 0, "client": "command", "command": "liar"}
    found = judged(History(producers=[producer]).acked(0, 0, 0).sent(0, 1, None), tmp_path)
    assert (found.lost, found.suspects) == (1, [])


def test_unknown_client_may_be_suspect(tmp_path: Path) -> None:
    folder = History().acked(0, 0, 0).sent(0, 1, None).read_to_end().write(tmp_path)
    folder.scenario_path.unlink()
    (suspect,) = findings_in(folder).suspects
    assert (suspect.client, suspect.lost_without_offset) == ("unknown", 1)
    assert "producer 0 (unknown)" in suspect.story
