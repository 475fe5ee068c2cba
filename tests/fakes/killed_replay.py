"""`python killed_replay.py STORE SERVERS POINT BATCH`: a replay that kills itself (SIGKILL) at a point.

With batches of 20, in the third one. Without a point it runs to its end.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import confluent_kafka

from kaput import keep
from kaput.clients.keep import replaying

POINTS = ("noted", "produced", "marked", "committing", "committed", "removed")
_AT = 3
_seen: dict[str, int] = {}


def reached(point: str) -> None:
    """Ends the process where the test wants it."""
    _seen[point] = _seen.get(point, 0) + 1
    if point == sys.argv[3] and _seen[point] == _AT:
        os.kill(os.getpid(), signal.SIGKILL)


class Points:
    """Passes points, in front of a store."""

    def note(self, name: str, text: str) -> str:
        found: str = super().note(name, text)  # type: ignore[misc]
        if name.startswith("batch:"):
            reached("noted")
        return found

    def remove(self, ids: Sequence[str], note: str | None = None) -> None:
        reached("committed")
        super().remove(ids, note)  # type: ignore[misc]
        reached("removed")


class Database(Points, keep.SQLite):
    """A file."""


class Log(Points, keep.FailureLog):
    """A directory."""


class Producer(confluent_kafka.Producer):
    def flush(self, *args: Any) -> int:
        """All of a batch are acknowledged."""
        left = super().flush(*args)
        if not left:
            reached("produced")
        return left

    def send_offsets_to_transaction(self, *args: Any) -> None:
        """The mark is in the transaction."""
        super().send_offsets_to_transaction(*args)
        reached("marked")

    def commit_transaction(self, *args: Any) -> None:
        """The request may be on its way."""
        if sys.argv[3] == "committing" and _seen.get("marked", 0) >= _AT:
            os.posix_spawn("/bin/sh", ["sh", "-c", f"sleep 0.002; kill -9 {os.getpid()}"], dict(os.environ))
        super().commit_transaction(*args)


if __name__ == "__main__":
    replaying.Producer = Producer  # type: ignore[attr-defined]
    done = keep.replay(
        (Log if Path(sys.argv[1]).is_dir() else Database)(sys.argv[1]),
        {"bootstrap.servers": sys.argv[2], "log_level": 0},
        batch=20,
        exactly_once=sys.argv[4] == "exactly",
    )
    sys.stdout.write(json.dumps(asdict(done)))
