"""The opening of a run folder: a fresh directory, the resolved scenario, a manifest that says `recording`."""

from __future__ import annotations

import os
import platform
import time
import uuid
from pathlib import Path

import confluent_kafka
import psutil
import yaml

import kaput
from kaput.cluster.distribution import Distribution
from kaput.cluster.java import Java
from kaput.errors import UsageError
from kaput.evidence.folder import Manifest, RunFolder, replace_text
from kaput.scenario.model import Scenario


def open_folder(
    runs: Path, name: str, scenario: Scenario, seed: int, distribution: Distribution, java: Java
) -> tuple[RunFolder, Manifest]:
    """Makes RUNS/TIME-NAME-ID with scenario and manifest. Raises UsageError where RUNS cannot be written."""
    run_id = uuid.uuid4()
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    folder = RunFolder(runs.resolve() / f"{stamp}-{name}-{run_id.hex[:6]}")
    try:
        folder.path.mkdir(parents=True)
    except OSError as error:
        raise UsageError(f"{folder.path}: cannot be made ({error.strerror}); choose another --runs") from None
    replace_text(folder.scenario_path, yaml.safe_dump(scenario.dump(), sort_keys=False, allow_unicode=True))
    manifest = Manifest(
        run_id=run_id,
        scenario=name,
        seed=seed,
        state="recording",
        mode=scenario.cluster.mode,
        versions={
            "kaput": kaput.__version__,
            "kafka": distribution.version,
            "python": platform.python_version(),
            "java": java.text,
            "librdkafka": confluent_kafka.libversion()[0],
            "confluent-kafka": confluent_kafka.version(),
        },
        host={
            "system": platform.platform(),
            "cores": os.cpu_count(),
            "memory_bytes": psutil.virtual_memory().total,
        },
        started_ns=time.time_ns(),
    )
    folder.write_manifest(manifest)
    return folder, manifest
