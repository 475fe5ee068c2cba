"""Run folders with everything planted, for tests that judge them by the command."""

from __future__ import annotations

from pathlib import Path

from kaput.bench.generate import generate, shape_of
from kaput.bench.plan import PlantingPlan


def planted(path: Path, messages: int, rate: float) -> Path:
    """A run folder of ten producers, ten partitions and one group; `rate`: of each anomaly."""
    generate(PlantingPlan(shape_of(messages, 10, 10, 1, seed=3), rate), path, lambda _done, _all: None)
    return path
