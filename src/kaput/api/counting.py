"""Counts the messages of a test's own producer: what it was acknowledged, against what a fresh reader finds.

By keys or values that are unique in the topic. Not here: the numbered messages of a lab (sending.py).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kaput.errors import LabError, UsageError

if TYPE_CHECKING:
    from kaput.operate.standing_cluster import StandingCluster

_EXAMPLES = 10  # of lost and of duplicate messages
_READ_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Counted:
    """`acked`: how many were given; `stored`: records in the topic; `lost`, `duplicates`: keys or values."""

    acked: int
    stored: int
    lost: int
    duplicates: int
    lost_examples: Sequence[str]
    duplicate_examples: Sequence[str]


def count(lab: StandingCluster, topic: str, acked: Iterable[str | bytes], by: str) -> Counted:
    """`by`: what `acked` has, key or value. Raises UsageError, LabError."""
    if by not in ("key", "value"):
        raise UsageError(f"by: {by!r} is neither key nor value")
    if isinstance(acked, (str, bytes)):
        raise UsageError(f"acked: {acked!r} is one {by}, not a list of them")
    return compared(_read(lab, topic, by), acked)


def compared(stored: Iterable[str], acked: Iterable[str | bytes]) -> Counted:
    """What is stored against what was acknowledged."""
    given = [each if isinstance(each, str) else _text(each) for each in acked]
    counts = Counter(stored)
    lost = [each for each in dict.fromkeys(given) if each not in counts]
    doubled = [each for each, times in counts.items() if times > 1]
    return Counted(len(given), counts.total(), len(lost), len(doubled), lost[:_EXAMPLES], doubled[:_EXAMPLES])


def _text(data: bytes) -> str:
    return data.decode(errors="backslashreplace")


def _read(lab: StandingCluster, topic: str, by: str) -> Iterator[str]:
    """The key or value of every committed record, once every partition has a leader. Raises LabError."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    limit = time.monotonic() + _READ_TIMEOUT_S
    while any(each.leader is None for each in lab.partitions(topic).values()):
        if time.monotonic() > limit:
            raise LabError(f"a partition of {topic} has had no leader for {_READ_TIMEOUT_S:.0f} s")
        time.sleep(0.1)
    settings = {**lab.client_settings(), "group.id": "kaput-count", "enable.auto.commit": False,
                "isolation.level": "read_committed", "enable.partition.eof": False}  # fmt: skip
    with closing(Consumer(settings)) as reader:
        places = [TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in lab.partitions(topic)]
        ends = {each.partition: reader.get_watermark_offsets(each, _READ_TIMEOUT_S)[1] for each in places}
        reader.assign(places)
        while time.monotonic() < limit:
            message = reader.poll(0.5)
            if message is not None and message.error() is None:
                text = message.key() if by == "key" else message.value()
                yield _text(text or b"")
            elif message is None:
                at = {each.partition: each.offset for each in reader.position(places)}
                if all(at[number] >= end for number, end in ends.items() if end):
                    return
    raise LabError(f"{topic} could not be read to its end within {_READ_TIMEOUT_S:.0f} s")
