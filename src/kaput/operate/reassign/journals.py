"""The directory of the reassignment journals (journal.py); imports no Kafka, for callers that only delete."""

from __future__ import annotations

from pathlib import Path

import platformdirs


def journals() -> Path:
    """The directory of all journals."""
    return Path(platformdirs.user_state_dir("kaput")) / "reassignments"


def delete_journals(cluster_id: str) -> None:
    """Deletes all files about a cluster that no longer exists."""
    root = journals()
    for path in [*root.glob(f"{cluster_id}.*"), *root.glob(f"{cluster_id}-*.json")]:
        path.unlink(missing_ok=True)
