"""Histories of an acknowledged message that is gone, each with the cause and the verdict that it must get.

At 10 ms message 0 is stored, at 50 ms message 1 is acknowledged at offset 1, at 600 ms a new epoch begins, at
900 ms message 2 is stored, mostly at offset 1 as well. Every case changes one thing in that.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from fakes.histories import History, at


class Case(NamedTuple):
    """`words` stand in the reasons of the verdict."""

    history: History
    cause: str
    verdict: str
    words: str = ""


def failover(
    acks: object = 1,
    epochs: tuple[int | None, int | None] = (0, 1),
    lost: tuple[int | None, float] = (1, 50),
    stored: tuple[int, float] = (1, 900),
    producer: dict[str, Any] | None = None,
    **topic: Any,
) -> History:
    """The history without cluster events.

    `epochs`: of the stored records; `lost`, `stored`: offset and time of messages 1 and 2.
    """
    history = History(
        producers=[{"topic": "orders", "acks": acks, **(producer or {})}],
        topics=[{"name": "orders", "replication-factor": 3, **topic}],
    )
    history.acked(0, 0, 0, leader_epoch=epochs[0], **_times(10))
    history.sent(0, 1, lost[0], **_times(lost[1]))
    return history.acked(0, 2, stored[0], leader_epoch=epochs[1], **_times(stored[1]))


def _times(ms: float) -> dict[str, Any]:
    return {"attempt_ns": at(ms), "done_ns": at(ms + 1)}


def _led(*leaders: int, isr: list[int] | None = None, **more: Any) -> History:
    """Broker 1 leads first; each of `leaders` begins an epoch from 600 ms on, 10 ms apart."""
    history = failover(**more).led(1, 0, 0, isr or [1, 2, 3])
    for epoch, leader in enumerate(leaders, 1):
        history.led(leader, epoch, 590 + 10 * epoch, None if leader < 0 else isr or [1, 2, 3])
    return history


def _hole(*leaders: int, lost_ms: float = 50, stored_ms: float = 900, **more: Any) -> History:
    """Nothing is at offset 2, which message 1 was acknowledged at; messages 2 and 3 are at 1 and 3."""
    history = _led(*leaders, lost=(2, lost_ms), stored=(1, stored_ms), **more)
    epoch = history.rows["log"][-1]["leader_epoch"]
    return history.acked(0, 3, 3, leader_epoch=epoch, **_times(950))


def _without_power(history: History, injected: float = 40, healed: float = 500, **more: Any) -> History:
    return history.fault(more.pop("broker", 1), injected, healed, fault="power-loss", **more)


def _without_power_anywhere(leader: int, **more: Any) -> History:
    history = _led(leader, acks="all", **more)
    for broker in (1, 2, 3):
        _without_power(history, broker=broker)
    return history


_HELD, _BROKEN, _OPEN = "held", "violated", "inconclusive"
_DEPOSED, _RESTARTED, _UNEXPLAINED = "deposed-leader", "leader-restarted", "unexplained"
_NOBODY = "partition is not recorded"
_EITHER = "it is unknown whether a deposed leader or its successor assigned it"
_PROCESS = "must survive a process crash"
_NO_CHANGE = "no change of leader explains it"
_NONE = (None, None)  # epochs
_COMPACTED: dict[str, Any] = {"config": {"cleanup.policy": "compact,delete"}}
_KEYED: dict[str, Any] = {"producer": {"key": "seq"}}
_NO_SYNC = "had not synced"
_BY_ALL = "all of those lost what they had not synced"


def _compacted_everywhere() -> History:
    history = _hole(acks="all", epochs=(0, 0), **_KEYED)
    history.cluster = {"config": {"log.cleanup.policy": "compact"}}
    return history


CASES: dict[str, Case] = {
    "a change of leader": Case(_led(2), _DEPOSED, _HELD, "across a change of leader"),
    "a change of leader, acks=all": Case(_led(2, acks="all"), _DEPOSED, _BROKEN, "must survive a change"),
    # The log tells of no epochs, or not of all.
    "no epoch": Case(_led(2, epochs=_NONE), _DEPOSED, _HELD),
    "no epoch, and a late acknowledgement": Case(_led(2, epochs=_NONE, lost=(1, 650)), _DEPOSED, _HELD),
    "no epoch, acks=all": Case(_led(2, acks="all", epochs=_NONE), _DEPOSED, _BROKEN, "must survive"),
    "no epoch, no change of leader": Case(_led(epochs=_NONE), _UNEXPLAINED, _BROKEN, _NO_CHANGE),
    "no epoch, the same leader": Case(_led(1, epochs=_NONE), _RESTARTED, _BROKEN, _PROCESS),
    "no epoch, the same leader, then another": Case(_led(1, 2, epochs=_NONE), _DEPOSED, _HELD),
    "no epoch, leaders without theirs": Case(
        failover(epochs=_NONE).led(1, None, 0).led(2, None, 600), _UNEXPLAINED, _OPEN, _NOBODY
    ),
    "no epoch, a hole": Case(_hole(2, epochs=_NONE), _UNEXPLAINED, _OPEN, _EITHER),
    "an epoch in between untold": Case(
        _led(2, epochs=(0, None)).acked(0, 3, 2, leader_epoch=1, **_times(950)), _DEPOSED, _HELD
    ),
    "the last epoch untold": Case(_led(2, epochs=(0, None)), _DEPOSED, _HELD),
    # Nobody recorded who led.
    "neither epochs nor events": Case(failover(epochs=_NONE), _UNEXPLAINED, _OPEN, _NOBODY),
    "epochs without events": Case(failover(), _DEPOSED, _OPEN, _NOBODY),
    "epochs without events, acks=all": Case(failover("all"), _DEPOSED, _BROKEN),
    "a hole without events": Case(failover(epochs=(0, 0), stored=(2, 900)), _UNEXPLAINED, _OPEN, _NOBODY),
    "an event of the new leader alone": Case(failover().led(2, 1, 600), _DEPOSED, _OPEN, _NOBODY),
    "nobody ever after": Case(_led(-1), _DEPOSED, _OPEN, _NOBODY),
    # The same leader again.
    "the same leader": Case(_led(1), _RESTARTED, _BROKEN, _PROCESS),
    "the same leader, acks=all": Case(_led(1, acks="all"), _RESTARTED, _BROKEN, "the same leader"),
    "the same leader, an ISR of one": Case(_led(1, acks="all", isr=[1]), _RESTARTED, _BROKEN),
    "nobody, then the same leader": Case(_led(-1, 1, epochs=(0, 2), isr=[1]), _RESTARTED, _BROKEN, _PROCESS),
    "nobody, then another leader": Case(_led(-1, 2, epochs=(0, 2)), _DEPOSED, _HELD),
    "the same leader without a record, then another": Case(_led(1, 2, epochs=(0, 2)), _DEPOSED, _HELD),
    "the same leader with a record, then another": Case(
        _led(1, 2).acked(0, 3, 2, leader_epoch=2, **_times(950)), _RESTARTED, _BROKEN, _PROCESS
    ),
    "another leader, then the first again": Case(_led(2, 1, epochs=(0, 2)), _DEPOSED, _HELD),
    # Faults that take unsynced data along, and others.
    "a kill": Case(_led(1).fault(1, 40, 500), _RESTARTED, _BROKEN, _PROCESS),
    "a power loss": Case(_without_power(_led(1)), _RESTARTED, _HELD, _NO_SYNC),
    "a power loss, and nobody for a while": Case(
        _without_power(_led(-1, 1, epochs=(0, 2), isr=[1])), _RESTARTED, _HELD, _NO_SYNC
    ),
    "a power loss that was over": Case(_without_power(_led(1), 20, 45), _RESTARTED, _BROKEN, _PROCESS),
    "a power loss afterwards": Case(_without_power(_led(1), 700, 800), _RESTARTED, _BROKEN, _PROCESS),
    "a power loss of another broker": Case(_without_power(_led(1), broker=2), _RESTARTED, _BROKEN),
    "a power loss without effect": Case(_without_power(_led(1), bit=False), _RESTARTED, _BROKEN),
    "a power loss, acks=all": Case(_without_power(_led(1, acks="all")), _RESTARTED, _BROKEN),
    "a power loss, acks=all, an ISR of one": Case(
        _without_power(_led(1, acks="all", isr=[1])), _RESTARTED, _HELD, "min.insync.replicas=1"
    ),
    "a power loss of all, acks=all": Case(_without_power_anywhere(1), _RESTARTED, _HELD, _BY_ALL),
    "a power loss of all, acks=all, another leader": Case(
        _without_power_anywhere(2), _DEPOSED, _HELD, _BY_ALL
    ),
    "a power loss of all, acks=all, synced before": Case(
        _without_power_anywhere(2, config={"flush.messages": 1}), _DEPOSED, _BROKEN, "flush.messages=1"
    ),
    "a power loss of all but one, acks=all": Case(
        _without_power(_without_power(_led(2, acks="all")), broker=3), _DEPOSED, _BROKEN
    ),
    # Nothing is where the acknowledgement points.
    "a hole": Case(_hole(2), _DEPOSED, _HELD),
    "a hole, acknowledged after the election": Case(_hole(2, lost_ms=700), _UNEXPLAINED, _OPEN, _EITHER),
    "a hole, acknowledged after the election, acks=all": Case(
        _hole(2, lost_ms=700, acks="all"), _UNEXPLAINED, _BROKEN
    ),
    "a hole, acknowledged by the new leader": Case(
        _hole(2, lost_ms=700, stored_ms=650), _UNEXPLAINED, _BROKEN, _NO_CHANGE
    ),
    "a hole after the same leader's return": Case(_hole(1, lost_ms=700), _UNEXPLAINED, _BROKEN, _NO_CHANGE),
    "a hole where the new epoch may begin": Case(_led(2, stored=(2, 900)), _UNEXPLAINED, _OPEN, _EITHER),
    "a hole in the only epoch": Case(_hole(epochs=(0, 0)), _UNEXPLAINED, _BROKEN, _NO_CHANGE),
    "an unknown offset": Case(_led(2, lost=(None, 50)), _UNEXPLAINED, _OPEN, _EITHER),
    "an unknown offset, no change": Case(_led(lost=(None, 50), epochs=(0, 0)), _UNEXPLAINED, _BROKEN),
    # Each message has a key of its own: no later one took its place.
    "compacted": Case(_hole(epochs=(0, 0), **_COMPACTED, **_KEYED), _UNEXPLAINED, _BROKEN, _NO_CHANGE),
    "compacted, acks=all": Case(
        _hole(acks="all", epochs=(0, 0), **_COMPACTED, **_KEYED), _UNEXPLAINED, _BROKEN, _NO_CHANGE
    ),
    "compacted everywhere": Case(_compacted_everywhere(), _UNEXPLAINED, _BROKEN, _NO_CHANGE),
    "compacted without keys": Case(_hole(acks="all", epochs=(0, 0), **_COMPACTED), _UNEXPLAINED, _BROKEN),
    "compacted, and overwritten": Case(_led(2, acks="all", **_COMPACTED, **_KEYED), _DEPOSED, _BROKEN),
}
