"""`kaput scenarios`: the built-ins, one of them as its file, and the JSON Schema for editors."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from kaput.scenario.model import Scenario

app = typer.Typer(
    rich_markup_mode=None,
    help="The built-in scenarios; alone: list them.\n\nExample: kaput scenarios show noop > mine.yaml",
)
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]


@app.callback(invoke_without_command=True)
def _alone(context: typer.Context, json: Json = False) -> None:
    if context.invoked_subcommand is None:
        list_command(json)


@app.command("list")
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


@app.command("show")
def show_command(name: Annotated[str, typer.Argument(help="A built-in's name.")]) -> None:
    """Print a built-in scenario's file, to read or to start from.

    Example: kaput scenarios show leader-kill-acks-1 > mine.yaml
    """
    from kaput.scenario.builtin import builtin_text
    from kaput.scenario.loader import load_builtin

    load_builtin(name)
    sys.stdout.write(builtin_text(name))


@app.command("schema")
def schema_command() -> None:
    """Print the JSON Schema (draft 2020-12) of scenario files, for editors.

    Example: kaput scenarios schema > kaput.schema.json, and as a file's first line
    # yaml-language-server: $schema=kaput.schema.json
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
        "brokers": scenario.cluster.brokers,
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
        table.add_row(name, str(scenario.cluster.brokers), f"{total:,}" if total else "-", scenario.title)
    Console().print(table)
