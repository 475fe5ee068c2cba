"""Sets up a run folder: a new directory, the recorder's lock, the resolved scenario, and a manifest in state
`recording`.
"""

from __future__ import annotations

import os
import platform
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


def commit(root: Path | None = None) -> str | None:
    """The commit (40 hex digits) that is checked out in `root`, by default the one with this package. None if
    that is not a checkout, or has no commit. Ignores uncommitted changes.
    """
    root = root or Path(__file__).resolve().parents[3]
    try:
        git = _directory(root / ".git")
        head = (git / "HEAD").read_text().strip()
        return _resolved(git, head.removeprefix("ref: ")) if head.startswith("ref: ") else head or None
    except (OSError, ValueError):
        return None


def _directory(git: Path) -> Path:
    """The .git directory, or the one that a worktree's .git file names."""
    if git.is_dir():
        return git
    return git.parent / git.read_text().strip().removeprefix("gitdir: ")


def _resolved(git: Path, name: str) -> str | None:
    """The commit of a reference, from its own file or packed-refs."""
    places = [git]
    if (git / "commondir").exists():
        places.append(git / (git / "commondir").read_text().strip())
    for place in places:
        if (place / name).is_file():
            return (place / name).read_text().strip()
    for place in places:
        packed = place / "packed-refs"
        for line in packed.read_text().splitlines() if packed.is_file() else ():
            if line.endswith(f" {name}"):
                return line.split(" ")[0]
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
