"""What a report tells of how a run was made: versions, phases, the scenario as it was resolved."""

from __future__ import annotations

from kaput.errors import KaputError
from kaput.evidence.folder import Manifest, RunFolder
from kaput.scenario.loader import read_resolved
from kaput.scenario.model import Scenario


def manifest_of(folder: RunFolder) -> Manifest | None:
    """The manifest; None where it cannot be read: findings can be shown without."""
    try:
        return folder.read_manifest()
    except KaputError:
        return None


def scenario_of(folder: RunFolder) -> Scenario | None:
    """The scenario; None where it cannot be read."""
    try:
        return read_resolved(folder.scenario_path) if folder.scenario_path.exists() else None
    except (KaputError, OSError):
        return None
