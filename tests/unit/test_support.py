"""docs/SUPPORT.md: every cell names its test, and the test exists. The issue forms ask for what is needed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from kaput.core import NEWEST_KAFKA

ROOT = Path(__file__).parents[2]
SUPPORT = (ROOT / "docs" / "SUPPORT.md").read_text(encoding="utf-8")
MATRIX = SUPPORT.partition("## Versions")[0]
WITHOUT_A_TEST = re.compile(
    r"^(not tested|refused|no\b|does not work|needs root|Kafka 4 has none)|not tested$|by hand, on 20\d\d-"
)


def test_every_cell_is_tested_by_something_or_not_tested() -> None:
    """And nothing in between."""
    rows = [line.strip("| ").split(" | ") for line in MATRIX.splitlines() if line.startswith("| ")]
    cells = [cell for row in rows if row[1] != "---" for cell in row[1:]]
    heads = {"KRaft", "ZooKeeper", "as producer and member", "versions"}
    heads |= {"clusters, kill, stop, pause", "network faults", "disks, memory, clocks"}
    assert [
        c for c in cells if c not in heads and "tested by" not in c and not WITHOUT_A_TEST.search(c)
    ] == []
    assert len(cells) > 30


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`(tests/[\w./]+)`", SUPPORT))))
def test_every_test_that_is_named_exists(path: str) -> None:
    """A test that moved takes its cell along."""
    assert (ROOT / path).exists()


def test_the_default_kafka_is_in_the_matrix() -> None:
    """Moving the default means looking at this page."""
    assert f"| {NEWEST_KAFKA} (default) |" in MATRIX


@pytest.mark.parametrize("form", ["bug", "wrong-verdict"])
def test_forms_require_the_version_and_a_run_folder(form: str) -> None:
    """Without them most reports cannot be answered."""
    path = ROOT / ".github" / "ISSUE_TEMPLATE" / f"{form}.yml"
    fields = {each["id"]: each for each in yaml.safe_load(path.read_text())["body"]}
    assert "kaput version --json" in fields["version"]["attributes"]["label"]
    assert "kaput bug RUN_DIR" in str(fields["run"]["attributes"])
    assert all(fields[name]["validations"]["required"] for name in ("version", "run"))
