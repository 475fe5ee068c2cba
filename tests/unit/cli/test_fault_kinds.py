"""`kaput fault kinds` and `targets`: what there is, without a cluster."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from fakes.program import app
from kaput.errors import UsageError
from kaput.scenario.fault_kinds import defaults_of
from kaput.scenario.steps import FaultStep
from kaput.scenario.targets import TARGETS


def call(*words: str) -> str:
    """What the verb prints."""
    result = CliRunner().invoke(app, ["fault", *words])
    if result.exception:
        raise result.exception
    return result.output


def test_every_fault_of_a_scenario_is_listed_with_its_options() -> None:
    """Once for each kind of target; with an effect and a proof."""
    found = json.loads(call("kinds", "--json"))
    known = set(FaultStep.model_json_schema()["properties"]["fault"]["enum"])
    assert {each["fault"] for each in found} == known
    for each in found:
        assert each["effect"] and each["proof"] and each["hits"]
        assert defaults_of(each["fault"]).items() <= each["options"].items()


def test_lines_are_as_long_as_the_terminal_is_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a pipe each text is one line, for grep; both have the same words."""
    whole = call("kinds")
    monkeypatch.setenv("COLUMNS", "60")
    narrow = call("kinds")
    assert max(map(len, narrow.splitlines())) <= 60 < max(map(len, whole.splitlines()))
    assert narrow.split() == whole.split()


def test_one_fault_is_described_in_a_few_lines() -> None:
    """An unknown one is an error that names the nearest."""
    text = call("kinds", "delay")
    assert text.startswith("delay: brokers, controllers") and "Options: from=everybody, delay=250ms" in text
    assert "Confirmed by: " in text and "kill" not in text
    with pytest.raises(UsageError, match="no fault dealy; did you mean delay"):
        call("kinds", "dealy")


def test_every_target_is_listed() -> None:
    """In the form in which it is written."""
    lines = call("targets").splitlines()
    assert [line.split("  ")[0] for line in lines] == [form for form, _ in TARGETS.values()]
    assert json.loads(call("targets", "--json"))[0] == {
        "target": "broker N",
        "meaning": "the broker of that number",
    }
