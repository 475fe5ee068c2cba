"""Compares source and target of the mirrors of a run, for `expect: {mirror: identical}`.

Its place: the clients and mirrors have ended, and the clusters still run. How two clusters are compared is
not known here: the runner is handed a function.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kaput.errors import KaputError
from kaput.evidence.comparisons import COMPARE_SCHEMA
from kaput.evidence.folder import RunFolder, replace_text
from kaput.scenario.mirrors import Mirror

# The mirror, the servers of its source, those of its target: the answer as `kaput compare --json` has it.
CompareMirror = Callable[[Mirror, str, str], Mapping[str, Any]]


def compare_mirrors(
    mirrors: Sequence[Mirror],
    servers: Mapping[str, str],
    folder: RunFolder,
    compare: CompareMirror,
    note: Callable[[str], None],
) -> None:
    """Keeps an answer for each mirror; one that cannot be had says why not. `servers`: by cluster."""
    for mirror in mirrors:
        try:
            answer = compare(mirror, servers[mirror.from_], servers[mirror.to])
        except Exception as error:  # noqa: BLE001
            # Whatever it is, the run is worth more: the expectation stays unknown.
            why = str(error) if isinstance(error, KaputError) else f"{type(error).__name__}: {error}"
            note(f"mirror {mirror.name} could not be compared: {why}")
            answer = _none(mirror, why)
        path = folder.comparison(mirror.from_, mirror.to)
        path.parent.mkdir(exist_ok=True)
        replace_text(path, json.dumps(answer, indent=2) + "\n")


def _none(mirror: Mirror, why: str) -> dict[str, Any]:
    ends = {"source": mirror.from_, "target": mirror.to}
    return {"schema": COMPARE_SCHEMA, **ends, "status": None, "rows": [], "notes": [why]}
