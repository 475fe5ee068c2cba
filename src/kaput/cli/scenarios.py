"""`kaput scenarios`: lists and prints the built-in scenarios, and the JSON Schema for editors."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from kaput.cli.cluster_options import Json
from kaput.cli.verbs import Verb, group

if TYPE_CHECKING:
    from kaput.scenario.model import Scenario

app = group(
    "List and print the built-in scenarios.\n\nExample: kaput scenarios show noop > mine.yaml",
    no_args_is_help=False,
)


@app.callback(invoke_without_command=True)
def _root(context: typer.Context, json: Json = False) -> None:
    if context.invoked_subcommand is None:
        list_command(json)


@app.command("list", cls=Verb)
def list_command(json: Json = False) -> None:
    """List the built-in scenarios.

    Example: kaput scenarios list --json
    """
    from kaput.scenario.builtin import builtin_names
    from kaput.scenario.loader import load_builtin

    found = {name: load_builtin(name) for name in builtin_names()}
    if json:
        _print_json([_summary(name, scenario) for name, scenario in found.items()])
    elif sys.stdout.isatty():
        _print_table(found)
    else:
        width = max(map(len, found))
        for name, scenario in found.items():
            sys.stdout.write(f"{name:{width}}  {scenario.title}\n")


@app.command("show", cls=Verb)
def show_command(
    scenario: Annotated[str, typer.Argument(metavar="SCENARIO", help="Name of a built-in scenario.")],
    json: Json = False,
) -> None:
    """Print a built-in scenario's YAML file.

    Example: kaput scenarios show leader-kill-acks-1 > mine.yaml
    """
    from kaput.scenario.builtin import builtin_text
    from kaput.scenario.loader import load_builtin

    found = load_builtin(scenario)
    if json:
        _print_json(found.dump())
    else:
        sys.stdout.write(builtin_text(scenario))


@app.command("schema", cls=Verb)
def schema_command() -> None:
    """Print the JSON Schema of scenario files.

    Editors use it (draft 2020-12) if a file begins with # yaml-language-server: $schema=kaput.schema.json

    Example: kaput scenarios schema > kaput.schema.json
    """
    from kaput.scenario.schema import json_schema

    _print_json(json_schema())


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


def _print_json(document: object) -> None:
    import json

    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


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
