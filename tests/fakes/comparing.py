"""Two analyses of one run side by side: findings and tables, and where they differ."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from kaput.evidence.findings import Findings


def differences(found: object, expected: object) -> dict[str, object]:
    """Where two summaries differ, as path -> (found, expected)."""
    if not isinstance(found, dict) or not isinstance(expected, dict):
        return {} if found == expected else {"": (found, expected)}
    return {
        f"{key}/{path}": pair
        for key in [*found, *(key for key in expected if key not in found)]
        for path, pair in differences(found.get(key), expected.get(key)).items()
    }


def comparable(findings: Findings) -> dict[str, object]:
    """The findings as keys and values."""
    told = findings.model_dump()
    return {key: dict(enumerate(value)) if isinstance(value, list) else value for key, value in told.items()}


def tables(path: Path) -> dict[str, object]:
    """Every table that an analysis left, as sorted rows."""
    found: dict[str, object] = {}
    for directory in sorted((path / "analysis").iterdir()):
        rows = pq.read_table(directory).to_pylist()
        found[directory.name] = dict(enumerate(sorted(rows, key=repr)))
    return found
