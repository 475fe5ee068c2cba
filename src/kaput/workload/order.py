"""What a client process is told, as one JSON document: plain values, quick to import and to read.

The other direction is one JSON object a line on the client's stdout (kinds in `Said`).
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

# ready: may be told to go. threshold: the N-th attempt of all was made. sent: every attempt is made.
# done: every outcome is known and recorded. trouble: the client cannot go on.
Said = Literal["ready", "threshold", "sent", "done", "trouble"]


@dataclass(frozen=True)
class ProducerOrder:
    """One producer's task. `rate` 0 is as fast as it goes; one of `messages` and `duration_ms` is set."""

    folder: str
    run_id: str
    producer: int
    topic: str
    partitions: int
    messages: int | None
    duration_ms: int | None
    rate: float
    payload_bytes: int
    key: str | int
    round_robin: bool
    retries_disabled: bool
    config: dict[str, Any]
    counters: str
    producers: int
    thresholds: list[int]

    @property
    def chooses(self) -> bool:
        """Whether the producer itself says which partition: message `seq` goes to `seq % partitions`."""
        return self.round_robin or self.partitions == 1


@dataclass(frozen=True)
class MemberOrder:
    """One group member's task."""

    folder: str
    run_id: str
    group: str
    member: str
    topics: list[str]
    config: dict[str, Any]


def write_order(path: Path, order: ProducerOrder | MemberOrder) -> None:
    """The order as a JSON file."""
    path.write_text(json.dumps(asdict(order)))


def say(kind: Said, **more: Any) -> None:
    """One line to the parent, at once."""
    sys.stdout.write(json.dumps({"kind": kind, **more}) + "\n")
    sys.stdout.flush()
