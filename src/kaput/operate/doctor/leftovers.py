"""What a reassignment that did not come to its end has left in the cluster."""

from __future__ import annotations

from collections.abc import Iterator

from kaput.operate.doctor.check import Found, check, ids
from kaput.operate.doctor.survey import THROTTLED_RATES, THROTTLED_REPLICAS, Survey

_RESUME = "kaput reassign --resume"


@check(
    "KP022",
    "warning",
    "replication is throttled while nothing is being moved: replicas that fall behind catch up slowly",
)
def _throttled(survey: Survey) -> Iterator[Found]:
    if survey.moving:
        return
    rates: dict[str, list[int]] = {}
    for broker in survey.brokers:
        if broker.throttles:
            rates.setdefault(_settings(broker.throttles), []).append(broker.id)
    for settings, brokers in sorted(rates.items()):
        which = "every broker" if len(brokers) == len(survey.brokers) else f"broker {ids(brokers)}"
        remove = [_remove(f"--broker {broker}", THROTTLED_RATES) for broker in brokers]
        yield Found(which, settings, _RESUME if survey.interrupted else " && ".join(remove))
    for topic in survey.topics:
        if topic.throttles:
            remedy = _RESUME if survey.interrupted else _remove(f"--topic {topic.name}", THROTTLED_REPLICAS)
            yield Found(f"topic {topic.name}", _settings(topic.throttles), remedy)


@check("KP023", "warning", "a reassignment was interrupted: it is neither finished nor undone")
def _interrupted(survey: Survey) -> Iterator[Found]:
    if survey.interrupted is not None:
        throttle = survey.interrupted.throttle
        rate = "without a throttle" if throttle is None else f"with a throttle of {throttle:,} bytes a second"
        yield Found(
            "reassignment",
            f"{survey.interrupted.partitions} partitions were to be changed, {rate}",
            f"{_RESUME}; to undo it: kaput reassign --rollback {survey.interrupted.rollback}",
        )


def _settings(throttles: dict[str, str]) -> str:
    return ", ".join(f"{key}={_shortened(value)}" for key, value in throttles.items())


def _shortened(value: str) -> str:
    return value if len(value) <= 40 else f"{value[:40].rpartition(',')[0]},..."


def _remove(entity: str, keys: tuple[str, ...]) -> str:
    return f"kaput tool configs --alter {entity} --delete-config {','.join(keys)}"
