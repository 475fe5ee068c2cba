"""Mirrors between clusters: the analysis against the oracle on histories made from seeds."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from fakes.comparing import differences
from fakes.in_process import InProcess
from fakes.oracle import Oracle
from kaput.evidence.findings import Findings
from property.agreement import by_pipeline, of_history, summary, tables
from property.twins import SIDE_BY_SIDE, Twin, beside

SEED = 44
FOLDERS, SOON = 16, 8  # those after the first SOON are long


def _judged(first: int, path: Path) -> tuple[Findings, Oracle, dict[str, object]]:
    history = beside([Twin(SEED, first + number) for number in range(SIDE_BY_SIDE)])
    folder = history.write(path / str(first))
    findings = by_pipeline(InProcess())(folder)
    found = summary(findings) | tables(folder, set())
    return findings, Oracle(history), differences(found, of_history(history) | {"causes": {}})


@pytest.mark.parametrize(
    "first",
    [pytest.param(n * SIDE_BY_SIDE, marks=[pytest.mark.long] * (n >= SOON)) for n in range(FOLDERS)],
)
def test_mirrors_equal_oracle(first: int, tmp_path: Path) -> None:
    """Fates, every anomaly, what of it is permitted, and the causes of what is unmirrored."""
    findings, oracle, differing = _judged(first, tmp_path)
    assert differing == {}
    (unmirrored,) = findings.anomaly("unmirrored")
    causes = Counter(cause for _, _, cause in oracle.mirrors.unmirrored())
    assert unmirrored.causes == dict(causes)
    by_mirror = Counter(mirror for mirror, _, _ in oracle.mirrors.unmirrored())
    assert {m.mirror: m.unmirrored for m in findings.mirrors if m.unmirrored} == dict(by_mirror)


def test_histories_cover_every_mirror_anomaly() -> None:
    """Or that both agree would mean nothing."""
    shown: Counter[str] = Counter()
    causes: Counter[str] = Counter()
    for first in range(0, SOON * SIDE_BY_SIDE, SIDE_BY_SIDE):
        oracle = Oracle(beside([Twin(SEED, first + number) for number in range(SIDE_BY_SIDE)]))
        shown.update(oracle.mirrors.run_counts())
        causes.update(cause for _, _, cause in oracle.mirrors.unmirrored())
        for group in oracle.groups:
            shown["translated-ahead"] += len(oracle.mirrors.ahead(group))
            shown["translated-behind"] += len(oracle.mirrors.behind(group))
            shown["failed back"] += len(oracle.mirrors.permitted_back(group))
            shown["left behind"] += len(oracle.mirrors.left_behind(group))
    assert min(shown.values()) > 1 and len(shown) == 8
    assert min(causes.values()) > 0 and len(causes) == 8
