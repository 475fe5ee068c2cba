"""`kaput fault inject`, `heal` and `list`: break a cluster that `kaput up` keeps, with the proofs of runs."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from kaput.cli.standing import Which
from kaput.cli.up import Json

app = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Break a standing cluster (kaput up), and mend it again.\n\n"
    "Example: kaput fault inject kill --target 'leader-of orders/0' --for 10s",
)


@app.command("inject")
def inject_command(
    fault: Annotated[str, typer.Argument(help="As in a scenario: kill, stop, pause, isolate, delay, ...")],
    *,
    target: Annotated[str, typer.Option(help="As in a scenario: broker 1, leader-of T/P, any, ...")] = "any",
    for_: Annotated[str | None, typer.Option("--for", metavar="TIME", help="Heal it then.")] = None,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", "-o", metavar="KEY=VALUE", help="As in a scenario: delay=250ms."),
    ] = None,
    cluster: Which = "lab",
    json: Json = False,
) -> None:
    """Break something now; returns once it is proven to have taken effect (4: it did not).

    Example: kaput fault inject pause --target 'broker 2' --for 30s
    """
    from kaput.errors import UsageError
    from kaput.scenario.values import parse_duration_ms

    wrong = [text for text in option or [] if "=" not in text]
    if wrong:
        raise UsageError(f"--option {wrong[0]}: write KEY=VALUE")
    try:
        for_ms = None if for_ is None else parse_duration_ms(for_)
    except ValueError as error:
        raise UsageError(f"--for {for_}: {error}") from None
    options = {key: _value(text) for key, _, text in (each.partition("=") for each in option or [])}
    request: dict[str, object] = {
        "do": "inject",
        "fault": fault,
        "target": target,
        "options": options,
        "for_ms": for_ms,
    }
    said = _called(cluster, request)
    _show([said], json, "injected")


@app.command("heal")
def heal_command(
    fault: Annotated[str | None, typer.Argument(help="Its id (kaput fault list); none: every one.")] = None,
    *,
    cluster: Which = "lab",
    json: Json = False,
) -> None:
    """End a fault, or all; returns once that is proven (4: it is not).

    Example: kaput fault heal 1-kill
    """
    _show(_called(cluster, {"do": "heal", "fault": fault}), json, "healed")


@app.command("list")
def list_command(*, cluster: Which = "lab", json: Json = False) -> None:
    """Every fault of this cluster, active or healed, with its proof.

    Example: kaput fault list --json
    """
    _show(_called(cluster, {"do": "faults"}), json, "")


def _called(cluster: str, request: dict[str, object]) -> Any:
    from kaput.operate.homes import call, find

    return call(find(cluster), request)


def _value(text: str) -> Any:
    import yaml

    from kaput.errors import UsageError

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        raise UsageError(f"--option ...={text}: not a value in YAML") from None


def _show(faults: list[dict[str, Any]], json: bool, verb: str) -> None:
    import json as library

    from kaput.printable import printable_document

    if json:
        typer.echo(library.dumps(faults, indent=2))
        return
    if not faults:
        typer.echo("no fault so far")
    for each in printable_document(faults):
        brokers = ", ".join(map(str, each["brokers"]))
        typer.echo(
            f"{each['id']}: {verb or each['state']}: {each['fault']} {each['target']} (node {brokers})"
        )
        typer.echo(f"  {each['proof']}")
