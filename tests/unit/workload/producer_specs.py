"""The order of a producer without a broker, for the tests of each kind of producer."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

from kaput.workload.client_spec import ProducerSpec

RUN = uuid.UUID(int=9)


def producer_spec(folder: Path, **fields: Any) -> ProducerSpec:
    """Ten messages to one partition, as fast as can be; `fields` are in place of these."""
    usual: dict[str, Any] = {
        "producer": 0, "topic": "orders", "partitions": 1, "messages": 10, "duration_ms": None, "rate": 0.0,
        "payload_bytes": 100, "key": "none", "round_robin": False, "retries_disabled": False,
        "config": {"bootstrap.servers": "127.0.0.1:1"}, "counters": str(folder / "counters"),
        "producers": 1, "thresholds": [],
    }  # fmt: skip
    return ProducerSpec(folder=str(folder), run_id=str(RUN), **{**usual, **fields})
