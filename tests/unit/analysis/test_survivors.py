"""Losses where replicas lose power, leave the ISR and come back: who still had the message decides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fakes.histories import History, at
from fakes.judging import judged


def _history(isr: list[int], **topic: Any) -> History:
    """Message 0 is stored by all; message 1 is acknowledged at 50 ms as offset 1 by that ISR, led by 1."""
    history = History(topics=[{"name": "orders", "replication-factor": 3, **topic}])
    history.acked(0, 0, 0, attempt_ns=at(9), done_ns=at(10)).led(1, 0, 0, isr)
    return history.sent(0, 1, 1, attempt_ns=at(49), done_ns=at(50))


def _overwritten(history: History, leader: int, ms: float, isr: list[int], epoch: int = 1) -> History:
    """That broker is elected, and the next message takes offset 1."""
    history.led(leader, epoch, ms, isr)
    times = {"attempt_ns": at(ms + 10), "done_ns": at(ms + 11)}
    return history.acked(0, 2, 1, leader_epoch=epoch, **times)


def _isr(history: History, ms: float, isr: list[int], leader: int = 1, epoch: int = 0) -> History:
    return history.led(leader, epoch, ms, isr, kind="isr")


def _power_loss(history: History, broker: int, ms: float, healed: float, **more: Any) -> History:
    return history.fault(broker, ms, healed, fault="power-loss", **more)


def _back_in_sync() -> History:
    """Broker 2 loses power, is in the ISR again, and then the leader loses power."""
    history = _power_loss(_history([1, 2]), 2, 100, 200)
    _isr(_isr(history, 110, [1]), 300, [1, 2])
    return _overwritten(_power_loss(history, 1, 15_000, 16_000), 2, 15_500, [2])


def _both_at_once() -> History:
    history = _power_loss(_power_loss(_history([1, 2]), 2, 100, 200), 1, 150, 250)
    return _overwritten(history, 2, 300, [2])


def _back_in_sync_behind_an_empty_leader() -> History:
    """Both lose power; broker 1 leads again, without the message, and broker 2 rejoins that."""
    history = _power_loss(_power_loss(_history([1, 2]), 2, 100, 200), 1, 150, 250)
    history.led(1, 1, 260, [1])
    _isr(history, 400, [1, 2], 1, 1)
    return _overwritten(history, 2, 500, [2], 2)


def _another_joined() -> History:
    """The leader acknowledges alone; broker 2 joins, and is elected in due form."""
    history = _isr(_history([1]), 100, [1, 2])
    return _overwritten(history, 2, 600, [2])


def _another_joined_before_the_power_loss() -> History:
    history = _power_loss(_isr(_history([1]), 100, [1, 2]), 1, 500, 700)
    return _overwritten(history, 2, 600, [2])


def _shrank_meanwhile() -> History:
    """The ISR shrinks to the leader while the message is on its way, and the leader loses power."""
    history = _history([1, 2])
    history.rows["sends"][1].update(attempt_ns=at(40), done_ns=at(60))
    _isr(history, 50, [1])
    return _overwritten(_power_loss(history, 1, 100, 200), 1, 210, [1])


def _no_isr_recorded() -> History:
    history = _power_loss(_history([1]), 1, 100, 200)
    for row in history.rows["cluster_events"]:
        row["isr"] = None
    history.led(2, 1, 150)
    return history.acked(0, 2, 1, leader_epoch=1, attempt_ns=at(160), done_ns=at(161))


def _election_not_recorded() -> History:
    """The log has an epoch of which no event tells, behind an ISR of the leader alone."""
    history = _history([1])
    return history.acked(0, 2, 1, leader_epoch=1, attempt_ns=at(600), done_ns=at(601))


def _heal_seen_late(rejoined: bool = True) -> History:
    """Broker 1 loses power and is in the ISR again long before its fault is seen to have ended; then the
    leader, broker 2, loses power.
    """
    history = _history([1, 2])
    history.rows["cluster_events"][0]["leader"] = 2
    _isr(_power_loss(history, 1, 100, 900), 110, [2], 2)
    if rejoined:
        _isr(history, 300, [1, 2], 2)
    return _overwritten(_power_loss(history, 2, 500, 1_000), 1, 510, [1])


def _acknowledged_after_it_rejoined() -> History:
    """The same, and the message is acknowledged in between."""
    history = _heal_seen_late()
    history.rows["sends"][1].update(attempt_ns=at(400), done_ns=at(401))
    return history


def _joined_while_its_power_was_lost() -> History:
    """Broker 1 was out of the ISR before: it may have been let in before anybody noticed its end."""
    history = _history([2])
    history.rows["cluster_events"][0]["leader"] = 2
    _isr(_power_loss(history, 1, 100, 900), 110, [1, 2], 2)
    return _overwritten(_power_loss(history, 2, 500, 1_000), 1, 510, [1])


def _leader_was_back(acks: Any) -> History:
    """The only replica loses power, leads again, acknowledges, and is killed; the heal is seen at the end."""
    history = _history([1])
    history.producers[0]["acks"] = acks
    history.rows["cluster_events"][0]["at_ns"] = at(-1)
    _power_loss(history, 1, 20, 900)
    history.led(1, 1, 30, [1]).fault(1, 100, 200)
    return _overwritten(history, 1, 210, [1], 2)


CASES = {
    "who left the ISR and is in it again is up, whatever the heal says": (_heal_seen_late, "violated"),
    "who never came back has nothing": (lambda: _heal_seen_late(rejoined=False), "held"),
    "who is in the ISR again takes part in it": (_acknowledged_after_it_rejoined, "violated"),
    "who joins with its power lost may be back or not": (_joined_while_its_power_was_lost, "inconclusive"),
    "a leader that acknowledges is up": (lambda: _leader_was_back("all"), "violated"),
    "a leader that acknowledges alone is up": (lambda: _leader_was_back(1), "violated"),
    "a victim that was in the ISR again is none any more": (_back_in_sync, "violated"),
    "all that acknowledged lose power at once": (_both_at_once, "held"),
    "who rejoins a leader without it does not have it": (_back_in_sync_behind_an_empty_leader, "held"),
    "an ISR of one that was never destroyed keeps its promise": (_another_joined, "violated"),
    "who joined the ISR has it, too": (_another_joined_before_the_power_loss, "violated"),
    "the ISR at the moment is not certain": (_shrank_meanwhile, "inconclusive"),
    "the ISR is not recorded, and power was lost": (_no_isr_recorded, "inconclusive"),
    "an election that is not recorded": (_election_not_recorded, "inconclusive"),
}


@pytest.mark.parametrize("name", CASES)
def test_loss_is_ruled_by_the_surviving_replicas(name: str, tmp_path: Path) -> None:
    """acks=all, min.insync.replicas=1, unclean election off; one message is lost."""
    history, verdict = CASES[name]
    findings = judged(history(), tmp_path)
    (lost,) = findings.anomaly("lost")
    assert (lost.count, findings.verdict) == (1, verdict), findings.reasons
    assert lost.permitted == (verdict == "held")


def _polled(*, settled: bool) -> History:
    """Broker 2 leads from about 560 ms on, which is seen at 600; message 1 is acknowledged at 590 as
    offset 2, where the log has a hole. `settled`: the producer had an acknowledgement of the new leader.
    """
    history = History(
        producers=[{"topic": "orders", "acks": 1}], topics=[{"name": "orders", "replication-factor": 3}]
    )
    history.acked(0, 0, 0, attempt_ns=at(9), done_ns=at(10)).led(1, 0, 0, [1, 2, 3], within_ns=200_000_000)
    history.led(2, 1, 600, [2, 3], within_ns=200_000_000)
    history.acked(0, 2, 1, leader_epoch=1, attempt_ns=at(564), done_ns=at(565 if settled else 620))
    history.sent(0, 1, 2, attempt_ns=at(589), done_ns=at(590))
    return history.acked(0, 3, 3, leader_epoch=1, attempt_ns=at(899), done_ns=at(900))


@pytest.mark.parametrize(("settled", "verdict"), [(True, "violated"), (False, "inconclusive")])
def test_polled_election_does_not_excuse_a_loss(settled: bool, verdict: str, tmp_path: Path) -> None:
    """An acknowledgement that is stored under the new epoch tells who gave the next one; else it is open."""
    findings = judged(_polled(settled=settled), tmp_path)
    (lost,) = findings.anomaly("lost")
    assert (lost.count, lost.permitted, findings.verdict) == (1, 0, verdict), findings.reasons
