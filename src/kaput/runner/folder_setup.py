"""Sets up a run folder: a new directory, the recorder's lock, the resolved scenario, and a manifest in state
`recording`.
"""

from __future__ import annotations

import os
import platform
import subprocess
import time
import uuid
from collections.abc import Mapping
from pathlib import Path

import confluent_kafka
import psutil
import yaml
from pydantic import JsonValue

from kaput.core import VERSION
from kaput.errors import EvidenceError, UsageError
from kaput.evidence.folder import Manifest, RunFolder, replace_text
from kaput.evidence.recording import RecordingLock, hold_to_record
from kaput.scenario.model import Scenario

_ROOT = Path(__file__).resolve().parents[3]


def commit(root: Path = _ROOT) -> str | None:
    """The commit (40 hex digits) that is checked out in `root`, by default where this package is. None if
    that is no checkout, or has no commit, or there is no git. Ignores uncommitted changes.
    """
    # Named, since git would also find the checkout of a program that has installed kaput.
    command = ["git", f"--git-dir={root / '.git'}", "rev-parse", "--verify", "--quiet", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def check_runs(runs: Path) -> None:
    """Checks, before anything starts, that run folders can be created in RUNS. Raises UsageError."""
    there = runs.absolute()
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir():
        raise UsageError(f"{runs}: cannot be a directory of run folders: {there} is a file")
    if not os.access(there, os.W_OK | os.X_OK):
        raise UsageError(
            f"{runs}: cannot create anything in {there} (no write permission); choose another --runs"
        )


def open_folder(
    runs: Path,
    name: str,
    scenario: Scenario,
    seed: int,
    versions: Mapping[str, str | None],
    varied: Mapping[str, JsonValue] | None = None,
) -> tuple[RunFolder, Manifest, RecordingLock]:
    """Creates RUNS/TIME-NAME-ID with scenario and manifest, locked while the run is recorded. `versions`: of
    Kafka and Java; `varied`: the settings from --vary. Raises UsageError if RUNS is not writable.
    """
    run_id = uuid.uuid4()
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    folder = RunFolder(runs.resolve() / f"{stamp}-{name}-{run_id.hex[:6]}")
    manifest = Manifest(
        run_id=run_id,
        scenario=name,
        seed=seed,
        varied=dict(varied or {}),
        state="recording",
        mode=scenario.cluster.mode,
        versions={
            "kaput": VERSION,
            **({"kaput-commit": known} if (known := commit()) else {}),
            **versions,
            "python": platform.python_version(),
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
    try:
        folder.path.mkdir(parents=True)
        hold = hold_to_record(folder.path, "kaput run")
        replace_text(folder.scenario_path, resolved(scenario))
        folder.write_manifest(manifest)
    except OSError as error:
        raise UsageError(
            f"{folder.path}: cannot be created ({error.strerror}); choose another --runs"
        ) from None
    except EvidenceError as error:
        raise UsageError(f"{error}: choose another --runs") from None
    return folder, manifest, hold


def resolved(scenario: Scenario) -> str:
    return yaml.safe_dump(scenario.dump(), sort_keys=False, allow_unicode=True)
