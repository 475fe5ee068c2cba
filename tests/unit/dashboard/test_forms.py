"""A scenario as a form: its own values, what may be changed, and what is refused."""

from __future__ import annotations

import pytest

from kaput.dashboard.new_runs import FormField, by_tag, form_of
from kaput.errors import UsageError
from kaput.scenario.builtin import builtin_names

COMMANDS = {"command", "inject", "heal", "prove", "client", "client-version", "where"}


def _fields(name: str) -> dict[str, FormField]:
    return {field.key: field for group in form_of(name).groups for field in group.fields}


def test_field_has_the_scenarios_value_and_schema_details() -> None:
    """Its type, its choices, its unit, its description; the file's own ones are told from defaults."""
    fields = _fields("second-kill-at-election")
    messages = fields["workload.producers.0.messages"]
    assert (messages.value, messages.number, messages.own, messages.hint) == (
        "60000",
        True,
        True,
        "at least 1",
    )
    assert messages.about.startswith("Number of messages of each producer")
    assert list(fields["workload.producers.0.acks"].choices) == ["0", "1", "all"]
    patience = fields["workload.producers.0.patience"]
    assert (patience.value, patience.own, patience.hint) == ("120s", False, "such as 20s, 250ms, 2m")
    assert fields["cluster.config.auto.leader.rebalance.enable"].value == "false"
    assert fields["cluster.config.auto.leader.rebalance.enable"].name == "auto.leader.rebalance.enable"
    assert fields["topics.0.assignment"].value == "[[1, 2, 3]]"
    assert fields["faults.1.at"].value.startswith("{event: election")


def test_clusters_and_mirrors_have_fields_too() -> None:
    """By their names; the single cluster, which there is not, has none."""
    fields = _fields("mirror")
    assert fields["clusters.dc1.brokers"].value == "1" and "cluster.brokers" not in fields
    assert fields["mirrors.0.groups"].value == "[billing]"
    assert fields["expect.mirrored-twice"].value == ">0"


@pytest.mark.parametrize("name", builtin_names())
def test_unchanged_form_of_every_scenario_is_valid(name: str) -> None:
    """All of its own values, given again, are no mistake; nothing in it is run, loaded or connected to."""
    form, fields = form_of(name), _fields(name)
    own = {key: field.value for key, field in fields.items() if field.own}
    assert own and form.mistakes(own) == []
    assert not COMMANDS & {key.rpartition(".")[2] for key in fields}
    assert not any("command" in field.choices for field in fields.values())


def test_validation_errors_are_attached_to_fields() -> None:
    """Of one value, and between values."""
    form = form_of("noop")
    changes = {"workload.producers.0.messages": "many", "topics.0.replication-factor": "4"}
    assert form.mistakes(changes) == [
        {"key": "workload.producers.0.messages", "text": "'many' is not valid here; write a whole number"},
    ]
    between = form.mistakes({"topics.0.replication-factor": "4"})
    assert [each["key"] for each in between] == ["topics.0.replication-factor"]
    (unreadable,) = form.mistakes({"faults.0.at": "["})
    assert unreadable == {"key": "faults.0.at", "text": "'[' is not a YAML value"}


@pytest.mark.parametrize(
    "key",
    [
        "workload.producers.0.command",
        "workload.producers.0.client",
        "workload.producers.0.config.plugin.library.paths",
        "cluster.config.metric.reporters",
        "faults.0.inject",
        "faults",
        "workload.producers",
        "title",
        "nothing",
        "",
    ],
)
def test_commands_and_libraries_cannot_be_set_by_form(key: str) -> None:
    """Whoever has the key may not run programs with it, nor load libraries."""
    with pytest.raises(UsageError, match="cannot be changed on a page"):
        form_of("noop").arguments({key: "x"})


def test_changes_become_a_quoted_command_line() -> None:
    """With quotes where they are needed."""
    form = form_of("noop")
    assert form.arguments({"faults.0.at": "30%"}) == ["run", "noop", "--set", "faults.0.at=30%"]
    assert form.command({"faults.0.target": "broker 1"}) == "kaput run noop --set 'faults.0.target=broker 1'"
    with pytest.raises(UsageError, match="no built-in scenario"):
        form_of("../noop")


def test_scenarios_are_listed_by_tag() -> None:
    """Each of them at least once, with title and description."""
    tags = by_tag()
    assert {name for entries in tags.values() for name, *_ in entries} == set(builtin_names())
    assert ("noop", *_texts("noop")) in tags["control"]


def _texts(name: str) -> tuple[str, str]:
    return form_of(name).title, form_of(name).description
