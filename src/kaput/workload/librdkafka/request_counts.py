"""Samples a client's metadata requests: how often hundreds of clients ask for leaders.

From librdkafka's statistics, which a scenario enables by `statistics.interval.ms`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kaput.evidence.recorder import Recorder
from kaput.workload.client_spec import ProducerSpec

METADATA_REQUESTS = "metadata_requests"  # of one producer since it started
INTERVAL = "statistics.interval.ms"


class RequestCounts:
    """Counts for one producer; does nothing unless its settings enable statistics."""

    def __init__(self, spec: ProducerSpec, settings: dict[str, Any]) -> None:
        self._labels = {"producer": str(spec.producer)}
        wanted = str(settings.get(INTERVAL, "0")) != "0"
        writer = f"producer-{spec.producer}"
        self._recorder = Recorder(Path(spec.folder), "samples", writer, spec.cluster) if wanted else None

    def settings(self) -> dict[str, Callable[[str], None]]:
        """Additional settings for the client."""
        return {} if self._recorder is None else {"stats_cb": self._sample}

    def _sample(self, statistics: str) -> None:
        assert self._recorder is not None
        brokers = json.loads(statistics)["brokers"].values()
        count = sum(broker.get("req", {}).get("Metadata", 0) for broker in brokers)
        self._recorder.row(time.time_ns(), "librdkafka", METADATA_REQUESTS, self._labels, float(count))

    def close(self) -> None:
        """Writes the remaining rows."""
        if self._recorder is not None:
            self._recorder.close()
