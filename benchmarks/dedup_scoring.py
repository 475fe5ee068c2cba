"""Measures filters: the kinds of trouble, and scores against the truth (the message of each delivery)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from dedup_traffic import CLAIM, Delivery, Memory, Traffic

from kaput.clients.dedup.filters import EveryId, Filter, HighWaterMark, NumberedRecord, OneProducer, Scope

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


class Score(NamedTuple):
    """`passed`: effects after the first one of their message; `dropped`: messages without an effect."""

    passed: int = 0
    dropped: int = 0


def first_copies(deliveries: Iterable[Delivery]) -> list[bool]:
    """For each delivery, whether it is the first of its message."""
    seen: set[int] = set()
    firsts = []
    for one in deliveries:
        firsts.append(one.message not in seen)
        seen.add(one.message)
    return firsts


def decisions(accepts: Filter, deliveries: Sequence[Delivery]) -> list[bool]:
    """For each delivery, whether the filter considers it new."""
    are_new = []
    for one in deliveries:
        are_new.append(accepts.is_new(one.record))
        accepts.mark(one.record)
    accepts.commit()
    return are_new


def score(deliveries: Sequence[Delivery], effects: Iterable[int]) -> Score:
    """The score of `effects`: the messages whose effect was run, once for each run.

    It does not matter which copy of a message passes: a fenced producer's is dropped correctly if the next
    producer's passes.
    """
    times = Counter(effects)
    del times[CLAIM]
    return Score(
        passed=sum(count - 1 for count in times.values()),
        dropped=len({one.message for one in deliveries} - times.keys() - {CLAIM}),
    )


def score_of(accepts: Filter, deliveries: Sequence[Delivery]) -> Score:
    """The score of a filter that reads all deliveries without a crash."""
    new = decisions(accepts, deliveries)
    return score(deliveries, (one.message for one, is_new in zip(deliveries, new, strict=True) if is_new))


_COLUMNS = ("topic", "partition", "offset", "producer", "seq")


def read_run_log(run: Path) -> list[Delivery]:
    """The log table of a sealed run folder, by partition and offset, as read_committed readers see it.

    A message is identified by its producer and seq, which its id combines. Records of other programs are
    skipped.
    """
    import pyarrow.parquet as pq

    table = pq.read_table(run / "evidence" / "log")
    visible = table["visible"].to_pylist() if "visible" in table.column_names else [None] * table.num_rows
    rows = zip(*(table[name].to_pylist() for name in _COLUMNS), visible, strict=True)
    deliveries = []
    for topic, partition, offset, producer, seq, seen in sorted(rows, key=lambda row: row[:3]):
        if producer is not None and seen is not False:
            message = (producer << 40) + seq
            record = NumberedRecord(topic, partition, offset, message, producer, seq, number=seq)
            deliveries.append(Delivery(record, message))
    return deliveries
