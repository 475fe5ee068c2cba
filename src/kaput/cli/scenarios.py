"""`kaput scenarios`: lists and prints the built-in scenarios, checks files, prints the JSON Schema."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from kaput.cli import completion
from kaput.cli.options import AllowUnknown, Json
from kaput.cli.run import Overrides
from kaput.cli.verbs import Verb, group, note, print_json
from kaput.core import plural
from kaput.errors import UsageError

if TYPE_CHECKING:
    from kaput.scenario.model import Scenario

app = group(
    "List, print and check scenarios.\n\nExample: kaput scenarios show noop > mine.yaml",
    lists=True,
)


@app.command("list", cls=Verb)
def list_command(
    tag: Annotated[
        list[str] | None, Option(metavar="TAG", help="Only those with this tag, or any of these.")
    ] = None,
    json: Json = False,
) -> None:
    """List the built-in scenarios.

    Example: kaput scenarios list --tag transactions
    """
    from kaput.cli.scenario_choice import names_with_tags
    from kaput.scenario.builtin import builtin_names
    from kaput.scenario.loader import load_builtin

    mistakes: list[str] = []
    names = names_with_tags(tag, mistakes) if tag else builtin_names()
    if mistakes:
        raise UsageError("\n".join(mistakes))
    builtins = {name: load_builtin(name) for name in names}
    if json:
        print_json([_summary(name, scenario) for name, scenario in builtins.items()], indent=2)
    elif sys.stdout.isatty():
        _print_table(builtins)
    else:
        width = max(map(len, builtins))
        for name, scenario in builtins.items():
            sys.stdout.write(f"{name:{width}}  {scenario.title}\n")


@app.command("show", cls=Verb)
def show_command(
    scenario: Annotated[
        str,
        Argument(
            metavar="SCENARIO", autocompletion=completion.scenarios, help="Name of a built-in scenario."
        ),
    ],
    json: Json = False,
) -> None:
    """Print a built-in scenario's YAML file.

    Example: kaput scenarios show leader-kill-acks-1 > mine.yaml
    """
    from kaput.scenario.builtin import builtin_text
    from kaput.scenario.loader import load_builtin

    found = load_builtin(scenario)
    if json:
        print_json(found.dump(), indent=2)
    else:
        sys.stdout.write(builtin_text(scenario))


@app.command("check", cls=Verb)
def check_command(
    scenarios: Annotated[
        list[str],
        Argument(
            metavar="SCENARIO",
            autocompletion=completion.scenarios,
            help="Scenario files, or names of built-in scenarios.",
        ),
    ],
    *,
    set_: Overrides = None,
    allow_unknown: AllowUnknown = False,
    json: Json = False,
) -> None:
    """Check scenario files without a run: every mistake with its line.

    Settings are compared with those that Kafka and its clients know, if Kafka's jars are on this machine.

    Exit status: 0 if all are valid; 2 if not.

    Example: kaput scenarios check mine.yaml
    """
    from kaput.cli.scenario_choice import choose

    choices = choose(scenarios, [], set_ or [], [], existing=None)
    chosen = {choice.name: choice.scenario for choice in choices}
    _note_commands(chosen)
    _check_settings(chosen, allow_unknown)
    _note_memory(chosen)
    if json:
        print_json([_summary(name, scenario) for name, scenario in chosen.items()], indent=2)
    else:
        for name, scenario in chosen.items():
            sys.stdout.write(f"{name}: valid; {_contents(scenario)}\n")


def _note_commands(scenarios: dict[str, Scenario]) -> None:
    """Says which steps need a cluster that kaput did not start."""
    for name, scenario in scenarios.items():
        if steps := _commands(scenario):
            verb = "needs" if len(steps) == 1 else "need"
            note(f"{name}: {', '.join(steps)} {verb} an existing cluster: run it with --bootstrap-servers")


def _note_memory(scenarios: dict[str, Scenario]) -> None:
    """Says which have more nodes than this machine has memory for: another one may have it."""
    from kaput.runner.machine import of_this_machine, shortage

    for name, scenario in scenarios.items():
        found = None if _commands(scenario) else shortage(scenario, of_this_machine())
        if found is not None:
            note(f"{name}: {found[0]}")


def _commands(scenario: Scenario) -> list[str]:
    """The ids of the steps that are commands of the user's."""
    from kaput.scenario.fault_kinds import COMMAND
    from kaput.scenario.timeline import step_id

    return [step_id(number, step) for number, step in enumerate(scenario.faults, 1) if step.fault == COMMAND]


def _check_settings(scenarios: dict[str, Scenario], allow_unknown: bool) -> None:
    """Raises UsageError for settings that nothing would read; says which could not be compared."""
    from kaput.runner.setting_check import wrong_here

    mistakes: list[str] = []
    for name, scenario in scenarios.items():
        wrong = wrong_here(scenario, allow_unknown=allow_unknown)
        if isinstance(wrong, str):
            note(f"{name}: its settings are not checked: {wrong}")
            continue
        option = f"{name}: " if len(scenarios) > 1 else ""
        mistakes += [f"{option}{line}" if line.startswith("--") else line for line in wrong]
    if mistakes:
        raise UsageError("\n".join(dict.fromkeys(mistakes)))


def _contents(scenario: Scenario) -> str:
    from kaput.scenario.timeline import total_messages

    total = total_messages(scenario)
    load = f"{total:,} messages" if total else "messages for a time"
    brokers = "an existing cluster" if _commands(scenario) else plural(scenario.broker_count, "broker")
    return f"{brokers}, {load}, {plural(len(scenario.faults), 'step')}"


@app.command("from", cls=Verb)
def from_command(
    file: Annotated[
        Path, Argument(metavar="FILE", help="server.properties, a Compose file, or Strimzi's resources.")
    ],
    *,
    like: Annotated[
        str, Option(metavar="SCENARIO", help="What happens: a built-in scenario, or a file.")
    ] = "leader-kill-acks-all",
    json: Json = False,
) -> None:
    """Make a scenario of your own cluster's files: what do we lose?

    Takes over the brokers, version, racks, topics and settings; lists what one machine cannot have.

    Example: kaput scenarios from server.properties > ours.yaml
    """
    import yaml

    from kaput.cluster.setting_names import PLUGINS
    from kaput.runner.setting_check import wrong_here
    from kaput.scenario.cluster_files.described_cluster import OURS
    from kaput.scenario.cluster_files.reading import scenario_from
    from kaput.scenario.loader import find, resolve, validated
    from kaput.scenario.mistakes import in_lines
    from kaput.scenario.origin import Origin, keep_origin

    name, source = find(like)
    resolve(source, [])  # its own mistakes have its lines
    data, replaced = scenario_from(file, name, source.data)
    scenario, mistakes = validated(data)
    if mistakes or scenario is None:
        raise UsageError(f"{file}, like {like}:\n{in_lines(mistakes)}")
    keep_origin(scenario, Origin(described=file))
    checked = wrong_here(scenario)
    found = [] if isinstance(checked, str) else checked
    of_plugins = [line for line in found if line.endswith(PLUGINS)]
    unknown = None if isinstance(checked, str) else [line.removesuffix(f" {PLUGINS}") for line in of_plugins]
    refused = [line for line in found if line not in of_plugins]
    if not isinstance(checked, str) and not any(line.endswith(OURS) for line in replaced):
        _refuse_others(scenario)
    if json:
        print_json({"scenario": data, "replaced": replaced, "unknown": unknown, "refused": refused}, indent=2)
        return
    lines = [f"Made from {file} by kaput scenarios from, like {like}."]
    lines += _listed("Not taken over:", replaced)
    if isinstance(checked, str):
        lines.append(f"Names of settings are not checked: {checked}")
    lines += _listed("Not known to Kafka (kaput run --allow-unknown: they are a plugin's):", unknown or [])
    lines += _listed("What a run refuses:", refused)
    sys.stdout.write("".join(f"# {line}\n" for line in lines))
    sys.stdout.write(yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=100))


def _refuse_others(scenario: Scenario) -> None:
    """Raises UsageError for another program's file: none of its settings is, or is nearly, a broker's."""
    from kaput.cluster.distribution import cached
    from kaput.cluster.setting_names import foreign_names
    from kaput.java import find_java
    from kaput.scenario.mistakes import Mistake
    from kaput.scenario.origin import origin_of

    config, jars = scenario.cluster.config, cached(scenario.cluster.kafka)
    foreign = [] if jars is None else foreign_names(config, jars, find_java())
    if foreign and len(foreign) == len(config):
        other = ", nor is any other one of the file" if len(config) > 1 else ""
        text = f"no broker setting of Kafka {scenario.cluster.kafka}{other}"
        raise UsageError(origin_of(scenario).placed(Mistake(("cluster", "config", foreign[0]), text))[1])


def _listed(title: str, lines: list[str]) -> list[str]:
    return [title, *(f"  {each}" for each in lines)] if lines else []


@app.command("schema", cls=Verb)
def schema_command() -> None:
    """Print the JSON Schema of scenario files.

    Editors use it (draft 2020-12) if a file begins with # yaml-language-server: $schema=kaput.schema.json

    Example: kaput scenarios schema > kaput.schema.json
    """
    from kaput.scenario.schema import json_schema

    print_json(json_schema(), indent=2)


def _summary(name: str, scenario: Scenario) -> dict[str, object]:
    from kaput.scenario.timeline import total_messages

    document = scenario.dump()
    return {
        "name": name,
        "title": scenario.title,
        "description": scenario.description,
        "tags": scenario.tags,
        "brokers": scenario.broker_count,
        "producers": len(scenario.producer_specs()),
        "messages": total_messages(scenario),
        "faults": document["faults"],
        "expect": document["expect"],
    }


def _print_table(found: dict[str, Scenario]) -> None:
    from rich.table import Table

    from kaput.console import Console
    from kaput.scenario.timeline import total_messages

    table = Table(box=None, pad_edge=False)
    table.add_column("scenario", no_wrap=True, style="bold")
    table.add_column("brokers", justify="right")
    table.add_column("messages", justify="right")
    table.add_column("what it shows")
    for name, scenario in found.items():
        total = total_messages(scenario)
        table.add_row(name, str(scenario.broker_count), f"{total:,}" if total else "-", scenario.title)
    Console().print(table)
