"""Checks for leftovers of an unfinished reassignment."""

from __future__ import annotations

from collections.abc import Iterator

from kaput.operate.doctor.check import Hit, check, ids
from kaput.operate.doctor.snapshot import THROTTLED_RATES, THROTTLED_REPLICAS, Snapshot

_RESUME = "kaput reassign --resume"


@check(
    "KP022",
    "warning",
    "replication is throttled while nothing is being moved: replicas that fall behind catch up slowly",
)
def _throttled(snapshot: Snapshot) -> Iterator[Hit]:
    if snapshot.moving:
        return
    rates: dict[str, list[int]] = {}
    for broker in snapshot.brokers:
        if broker.throttles:
            rates.setdefault(_settings(broker.throttles), []).append(broker.id)
    for settings, brokers in sorted(rates.items()):
        which = "every broker" if len(brokers) == len(snapshot.brokers) else f"broker {ids(brokers)}"
        remove = [_remove(f"--broker {broker}", THROTTLED_RATES) for broker in brokers]
        yield Hit(which, settings, _RESUME if snapshot.interrupted else " && ".join(remove))
    for topic in snapshot.topics:
        if topic.throttles:
            remedy = _RESUME if snapshot.interrupted else _remove(f"--topic {topic.name}", THROTTLED_REPLICAS)
            yield Hit(f"topic {topic.name}", _settings(topic.throttles), remedy)


@check("KP023", "warning", "a reassignment was interrupted: it is neither finished nor undone")
def _interrupted(snapshot: Snapshot) -> Iterator[Hit]:
    if snapshot.interrupted is not None:
        throttle = snapshot.interrupted.throttle
        rate = (
            "without a throttle" if throttle is None else f"with a throttle of {throttle:,} bytes per second"
        )
        yield Hit(
            "reassignment",
            f"{snapshot.interrupted.partitions} partitions were to be reassigned, {rate}",
            f"{_RESUME}; to undo it: kaput reassign --rollback {snapshot.interrupted.rollback}",
        )


def _settings(throttles: dict[str, str]) -> str:
    return ", ".join(f"{key}={_shortened(value)}" for key, value in throttles.items())


def _shortened(value: str) -> str:
    return value if len(value) <= 40 else f"{value[:40].rpartition(',')[0]},..."


def _remove(entity: str, keys: tuple[str, ...]) -> str:
    return f"kaput tool configs --alter {entity} --delete-config {','.join(keys)}"
