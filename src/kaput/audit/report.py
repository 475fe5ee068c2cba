"""What clients report: how many messages of a topic, and of ten seconds of message time, they have counted.

A report is a record of the topic kaput.audit, in JSON. Its count is that since the client began, so that a
record that comes twice, or late, or is lost before a newer one, changes nothing.
"""

from __future__ import annotations

import json
from typing import NamedTuple

TOPIC = "kaput.audit"
BUCKET_MS = 10_000
PRODUCED = "produced"


def consumed_by(group: str) -> str:
    """The stage of a group's members."""
    return f"consumed by {group}"


class Report(NamedTuple):
    """`n` messages of the bucket that begins at `bucket_ms`. `client`: an id of its own; `stage`: "produced",
    or "consumed by GROUP".
    """

    client: str
    stage: str
    topic: str
    bucket_ms: int
    n: int

    def write(self) -> str:
        """The record's value."""
        return json.dumps(self._asdict())

    @classmethod
    def read(cls, value: bytes | None) -> Report | None:
        """None for a record that is no report."""
        try:
            found = json.loads(value or b"null")
            client, stage, topic = (str(found[name]) for name in ("client", "stage", "topic"))
            return cls(client, stage, topic, int(found["bucket_ms"]), int(found["n"]))
        except (ValueError, KeyError, TypeError):
            return None
