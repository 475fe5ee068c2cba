"""Where the journals of reassignments are (journal.py). It needs no Kafka, for whoever only deletes them."""

from __future__ import annotations

from pathlib import Path

import platformdirs


def journals() -> Path:
    """Their directory."""
    return Path(platformdirs.user_state_dir("kaput")) / "reassignments"


def forget(cluster_id: str) -> None:
    """Deletes everything about a cluster that no longer exists."""
    root = journals()
    for path in [*root.glob(f"{cluster_id}.*"), *root.glob(f"{cluster_id}-*.json")]:
        path.unlink(missing_ok=True)
