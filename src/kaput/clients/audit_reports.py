"""The format of reports: how many messages of a topic and ten seconds of message time a client has counted.

A report is a record of the topic kaput.audit, in JSON. Counts are totals since the client started, so a
report that is duplicated, late, or lost before a newer one changes nothing.
"""

from __future__ import annotations

import json
from typing import NamedTuple

TOPIC = "kaput.audit"
BUCKET_MS = 10_000
PRODUCED = "produced"


def consumed_by(group: str) -> str:
    return f"consumed by {group}"


class CountReport(NamedTuple):
    """`n` messages from `bucket_ms` on. `client`: a unique id; `stage`: "produced", "consumed by GROUP"."""

    client: str
    stage: str
    topic: str
    bucket_ms: int
    n: int

    def write(self) -> str:
        return json.dumps(self._asdict())

    @classmethod
    def read(cls, value: bytes | None) -> CountReport | None:
        """Parses a record's value; None if it is no report."""
        try:
            fields = json.loads(value or b"null")
            client, stage, topic = (str(fields[name]) for name in ("client", "stage", "topic"))
            return cls(client, stage, topic, int(fields["bucket_ms"]), int(fields["n"]))
        except (ValueError, KeyError, TypeError):
            return None
