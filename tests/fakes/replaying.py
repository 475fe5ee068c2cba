"""`python -m fakes.replaying SPEC.json`: a replay without Kafka; each batch of ten is as good as sent."""

from __future__ import annotations

import json
import sys
import time
import uuid
from pathlib import Path
from typing import Any

from kaput import keep
from kaput.workload.client_spec import notify
from kaput.workload.librdkafka.replay import ReportingStore

if __name__ == "__main__":
    spec = json.loads(Path(sys.argv[1]).read_text())
    store: Any = ReportingStore(keep.open_store(spec["store"]), uuid.UUID(spec["run_id"]))
    notify("ready")
    while page := store.read("", 10):
        time.sleep(0.03)
        store.remove([record.id for record in page])
    notify("replay", left=0, maybe_twice=7, rejected={})
    notify("done")
