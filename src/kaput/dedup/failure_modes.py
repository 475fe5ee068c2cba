"""The kinds of trouble in which filters are measured, and the filters, by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kaput.dedup.every_id import EveryId
from kaput.dedup.filter import Filter
from kaput.dedup.high_water import HighWaterMark, Scope
from kaput.dedup.one_producer import OneProducer
from kaput.dedup.traffic import Memory, Traffic

FILTERS: dict[str, Callable[[], Filter]] = {
    "every id": EveryId,
    "mark per topic-partition": lambda: HighWaterMark(Scope.PARTITION),
    "mark per topic": lambda: HighWaterMark(Scope.TOPIC),
    "mark per producer": lambda: HighWaterMark(Scope.PRODUCER),
    "one producer per partition": OneProducer,
    "the same without fencing": lambda: OneProducer(fencing=False),
}

_LOST: dict[str, Any] = {"lost_requests": 0.05, "lost_acks": 0.05}
_TWO_PRODUCERS: dict[str, Any] = {"producers": 2, "partitions": 2}
_CRASHES: dict[str, Any] = {"crashes": 0.005, **_TWO_PRODUCERS, **_LOST}


def troubles(seed: int, messages: int = 1000) -> dict[str, Traffic]:
    """The traffic for each kind of trouble; all but the first also lose requests and acknowledgements."""
    of = partial(Traffic, seed=seed, messages=messages)
    return {
        "none": of(),
        "retries, one request in flight": of(**_LOST),
        "retries, five requests in flight": of(in_flight=5, **_LOST),
        "a producer writes to three partitions": of(partitions=3, **_LOST),
        "a producer writes to three topics": of(topics=3, **_LOST),
        "a retry goes to another partition": of(partitions=3, elsewhere=True, **_LOST),
        "a producer comes back with its memory": of(memory=Memory.ALL, **_CRASHES),
        "it comes back and counts from 0": of(memory=Memory.NUMBER, **_CRASHES),
        "it comes back as a new producer": of(memory=Memory.SOURCE, **_CRASHES),
        "it comes back with new ids and numbers": of(memory=Memory.NOTHING, **_CRASHES),
        "two producers share a partition": of(producers=2, shared=True, **_LOST),
        "a partition moves, and zombies write": of(moves=0.01, **_TWO_PRODUCERS, **_LOST),
        "the same, without claims": of(moves=0.01, claims=False, **_TWO_PRODUCERS, **_LOST),
    }
