"""The JSON Schema describes what the loader accepts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from typer.testing import CliRunner

from fakes.program import app
from kaput.scenario.builtin import builtin_names, builtin_text
from kaput.scenario.schema import DIALECT, json_schema

runner = CliRunner()


def objects(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The top level and every block."""
    yield "top", schema
    yield from schema["$defs"].items()


def test_every_schema_key_has_a_description() -> None:
    """An editor can say what a key is, and knows that there are no others."""
    schema = json_schema()
    assert schema["$schema"] == DIALECT
    for name, block in objects(schema):
        assert block["description"] and block["additionalProperties"] is False, name
        for key, value in block["properties"].items():
            assert value.get("description") or "$ref" in value, f"{name}.{key}"


def test_schema_keys_match_scenario_file_keys() -> None:
    """Kebab-case, with `for` and `title`, which are easily lost on the way."""
    schema = json_schema()
    assert {"title", "topics", "workload"} <= set(schema["properties"])
    assert {"at", "fault", "target", "for", "from", "clients-with"} <= set(
        schema["$defs"]["FaultStep"]["properties"]
    )
    assert "replication-factor" in schema["$defs"]["Topic"]["properties"]
    assert not any("_" in key for _, block in objects(schema) for key in block["properties"])
    assert "kill" in schema["$defs"]["FaultStep"]["properties"]["fault"]["enum"]


def test_scenarios_schema_prints_the_schema() -> None:
    result = runner.invoke(app, ["scenarios", "schema"])
    assert result.exit_code == 0
    assert json.loads(result.stdout) == json_schema()


def test_scenarios_list_and_show_output() -> None:
    """Bare and `list` are the same; show is the file as it is; JSON has every name."""
    bare = runner.invoke(app, ["scenarios"])
    assert bare.exit_code == 0 and bare.stdout == runner.invoke(app, ["scenarios", "list"]).stdout
    assert [line.split()[0] for line in bare.stdout.splitlines()] == builtin_names()
    for arguments in (["scenarios", "--json"], ["scenarios", "list", "--json"]):
        listed = json.loads(runner.invoke(app, arguments).stdout)
        assert [entry["name"] for entry in listed] == builtin_names()
        few = [entry["name"] for entry in listed if entry["messages"] < 10_000]
        assert few == ["topic-recreated", "topic-recreated-without-coordinator"]
    assert runner.invoke(app, ["scenarios", "show", "noop"]).stdout == builtin_text("noop")


def test_show_of_unknown_scenario_is_a_usage_error() -> None:
    result = runner.invoke(app, ["scenarios", "show", "nop"])
    assert "did you mean noop" in str(result.exception)
