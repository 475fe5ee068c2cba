"""`kaput alerts` without a cluster: list, show, check, rules."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from kaput.cli.main import app
from kaput.errors import UsageError
from kaput.monitor.alerts.loading import builtin, load


def printed(*arguments: str) -> str:
    """What the command prints; it must end well."""
    result = CliRunner().invoke(app, ["alerts", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*arguments: str) -> str:
    """The mistake that it reports."""
    result = CliRunner().invoke(app, ["alerts", *arguments])
    assert isinstance(result.exception, UsageError)
    return str(result.exception)


def test_every_rule_is_listed_with_its_condition() -> None:
    lines = printed("list").splitlines()
    assert len(lines) == len(builtin().alert_rules)
    assert lines[0].split(maxsplit=2) == [
        "low-send-rate",
        "page",
        "the sum of kaput_messages_acked_total, per second over 30s, is below 800 for 30s (until 900)",
    ]
    assert [rule["name"] for rule in json.loads(printed("list", "--json"))] == list(builtin().by_name)


def test_the_file_that_is_shown_is_one_that_can_be_changed_and_read(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(printed("show").replace("below: 800", "below: 5000").replace("clear: 900", "clear: 6000"))
    assert load(path).by_name["low-send-rate"].below == 5000
    assert "5000" in printed("list", "--rules", str(path))
    assert printed("show", "--rules", str(path)) == path.read_text()
    assert printed("check", str(path)) == f"{path}: 21 rules, 13 of them wake somebody\n"
    assert json.loads(printed("check", str(path), "--json")) == {"file": str(path), "rules": 21, "pages": 13}


def test_one_rule_is_shown_with_its_reason() -> None:
    text = printed("show", "replicas-out-of-sync")
    assert "Does not wake: everything works" in text
    assert "Silent while broker-down with the same broker fires." in text
    assert json.loads(printed("show", "broker-down", "--json"))["for"] == "120s"
    assert refused("show", "broker-dwon").endswith("did you mean broker-down?")


@pytest.mark.parametrize("arguments", [("check",), ("list", "--rules"), ("show", "--rules")])
def test_mistakes_in_a_file_are_named_with_their_lines(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("rules:\n  - name: x\n    sigal: kaput_broker_up\n")
    assert f"{path}:3: rule x: sigal: no such key; did you mean signal?" in refused(*arguments, str(path))


def test_rules_for_prometheus_and_alertmanager() -> None:
    groups = yaml.safe_load(printed("rules", "--prometheus"))["groups"]
    assert len(groups[0]["rules"]) == 21
    assert yaml.safe_load(printed("rules", "--alertmanager"))["inhibit_rules"]
    assert refused("rules") == refused("rules", "--prometheus", "--alertmanager")
