"""What docs/TUTORIAL.md and README.md have their readers write is what kaput reads, mistake included."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kaput.errors import UsageError
from kaput.scenario.loader import load_file

ROOT = Path(__file__).parents[3]
TUTORIAL = (ROOT / "docs" / "TUTORIAL.md").read_text(encoding="utf-8")
PARTS = ("title", "topics", "workload", "faults", "expect")


def test_tutorial_scenario_has_exactly_the_documented_error(tmp_path: Path) -> None:
    """In the words of the loader; its output is of a recorded run of the scenario (scripts/examples.py)."""
    (text,) = re.findall(r"```yaml\n(.*?)```", TUTORIAL, re.DOTALL)
    path = tmp_path / "orders.yaml"
    path.write_text(text)
    with pytest.raises(UsageError) as told:
        load_file(path)
    said = str(told.value).replace(f"{tmp_path}/", "")
    assert f"    kaput: {said}\n" in TUTORIAL
    path.write_text(text.replace("fault: kil,", "fault: kill,"))
    recorded = load_file(ROOT / "tests" / "recorded" / "orders" / "scenario.yaml")
    ours = load_file(path)
    assert [getattr(recorded, part) for part in PARTS] == [getattr(ours, part) for part in PARTS]


def test_the_readmes_scenario_is_valid(tmp_path: Path) -> None:
    """And expects what the page is about."""
    (text,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    path = tmp_path / "my.yaml"
    path.write_text(text)
    assert load_file(path).expect.model_dump(exclude_unset=True)["lost"] is not None


def test_tutorial_links_resolve() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", TUTORIAL)
    assert links and all((ROOT / "docs" / link).exists() for link in links)
