"""Compares source and target of a run's mirrors, for `expect: {mirror: identical}`.

Runs when clients and mirrors have ended, and clusters still run. Not here: how two clusters are compared; the
runner is passed a function.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kaput.cluster.existing import StandingCluster
from kaput.errors import KaputError
from kaput.evidence.comparisons import COMPARE_SCHEMA
from kaput.evidence.folder import RunFolder, replace_text
from kaput.scenario.mirrors import Mirror

# Called with the mirror, its source and its target; returns what `kaput compare --json` prints.
CompareMirror = Callable[[Mirror, StandingCluster, StandingCluster], Mapping[str, Any]]


def compare_mirrors(
    mirrors: Sequence[Mirror],
    clusters: Mapping[str, StandingCluster],
    folder: RunFolder,
    compare: CompareMirror,
    note: Callable[[str], None],
) -> None:
    """Writes a comparison of each mirror; if it fails, one with the reason. `clusters`: by name."""
    for mirror in mirrors:
        try:
            answer = compare(mirror, clusters[mirror.from_], clusters[mirror.to])
        except Exception as error:  # noqa: BLE001
            # Never fail the run for it: the expectation stays unknown.
            why = str(error) if isinstance(error, KaputError) else f"{type(error).__name__}: {error}"
            note(f"mirror {mirror.name} could not be compared: {why}")
            answer = _failed_answer(mirror, why)
        path = folder.comparison(mirror.from_, mirror.to)
        path.parent.mkdir(exist_ok=True)
        replace_text(path, json.dumps(answer, indent=2) + "\n")


def _failed_answer(mirror: Mirror, why: str) -> dict[str, Any]:
    ends = {"source": mirror.from_, "target": mirror.to}
    return {"schema": COMPARE_SCHEMA, **ends, "status": None, "rows": [], "notes": [why]}
