"""`kaput fault`: injects and heals faults on a running cluster (kaput up), confirmed as in runs."""

from __future__ import annotations

import re
import sys
import textwrap
from typing import Annotated, Any

import typer
from typer import Argument, Option

from kaput.cli import completion
from kaput.cli.options import ClusterName, Json, entry_of, milliseconds
from kaput.cli.verbs import Verb, group, pairs, print_json
from kaput.errors import UsageError
from kaput.printable import printable_document
from kaput.scenario.nearest import hint

app = group(
    "Inject faults into a running cluster (kaput up) and heal them.\n\n"
    "Example: kaput fault inject kill --target 'leader-of orders/0' --for 10s",
    lists=True,
)


@app.command("inject", cls=Verb)
def inject_command(
    fault: Annotated[
        str,
        Argument(
            metavar="FAULT",
            autocompletion=completion.faults,
            help="As in a scenario: kill, pause, isolate, ... (see kaput fault kinds).",
        ),
    ],
    *,
    target: Annotated[
        str,
        Option(
            metavar="TARGET",
            autocompletion=completion.targets,
            help="As in a scenario: broker 1, leader-of orders/0, ... (see kaput fault targets). Without it, "
            "any: one broker, chosen at random.",
        ),
    ] = "any",
    for_: Annotated[
        str | None, Option("--for", metavar="TIME", help="Heal the fault after this time: 30s.")
    ] = None,
    option: Annotated[
        list[str] | None,
        Option("--option", metavar="KEY=VALUE", help="Of the fault: delay=250ms. Repeatable."),
    ] = None,
    cluster: ClusterName = None,
    json: Json = False,
) -> None:
    """Inject a fault now.

    Returns when the fault is confirmed to have taken effect; exit status 4 if it did not.

    Example: kaput fault inject pause --target 'broker 2' --for 30s
    """
    given = pairs("--option", option)
    for_ms = None if for_ is None else milliseconds("--for", for_)
    if for_ms == 0:
        raise UsageError(f"--for {for_}: a duration must be longer than 0")
    request: dict[str, object] = {
        "do": "inject",
        "fault": fault,
        "target": target,
        "options": {key: _value(key, text) for key, text in given.items()},
        "for_ms": for_ms,
    }
    _show([_call(cluster, request)], json, "injected")


@app.command("heal", cls=Verb)
def heal_command(
    fault: Annotated[
        str | None,
        Argument(metavar="ID", help="Id of the fault, from kaput fault list (default: all faults)."),
    ] = None,
    *,
    cluster: ClusterName = None,
    json: Json = False,
) -> None:
    """Heal one fault, or all of them.

    Returns when the fault is confirmed to be healed; exit status 4 if it is not. Of several faults each is
    healed, also after one whose heal is not confirmed; the message names that one.

    Example: kaput fault heal 1-kill
    """
    _show(_call(cluster, {"do": "heal", "fault": fault}), json, "healed")


@app.command("list", cls=Verb)
def list_command(*, cluster: ClusterName = None, json: Json = False) -> None:
    """List the cluster's faults, active and healed, with proof.

    Example: kaput fault list --json
    """
    _show(_call(cluster, {"do": "faults"}), json, "")


@app.command("kinds", cls=Verb)
def kinds_command(
    fault: Annotated[
        str | None,
        Argument(
            metavar="FAULT", autocompletion=completion.faults, help="Only this fault (default: all faults)."
        ),
    ] = None,
    *,
    json: Json = False,
) -> None:
    """List fault kinds: what each does, what it hits, and its options.

    Example: kaput fault kinds delay
    """

    from kaput.console import Console
    from kaput.faults.catalogue import descriptions

    shown = [each for each in descriptions() if fault in (None, each.fault)]
    if not shown:
        known = sorted(each.fault for each in descriptions())
        raise UsageError(f"no fault {fault}; {hint(str(fault), known)}")
    if json:
        print_json([each._asdict() for each in shown], indent=2)
        return
    width = Console().width_or_none or sys.maxsize
    for each in shown:
        lines = [f"{each.fault}: {each.hits}", f"  {each.effect}", f"  Confirmed by: {each.proof}"]
        if each.options:
            lines.append(f"  Options: {', '.join(_option(*option) for option in each.options.items())}")
        for line in lines:
            typer.echo(textwrap.fill(line, width, subsequent_indent="  ", break_on_hyphens=False))


@app.command("targets", cls=Verb)
def targets_command(json: Json = False) -> None:
    """List fault targets, as written in --target and in scenarios.

    Example: kaput fault targets
    """

    from kaput.scenario.targets import TARGETS

    if json:
        print_json([{"target": form, "meaning": text} for form, text in TARGETS.values()])
        return
    width = max(len(form) for form, _ in TARGETS.values())
    for form, text in TARGETS.values():
        typer.echo(f"{form:{width}}  {text}")


def _option(name: str, default: Any) -> str:
    return name if default is None else f"{name}={default}"


def _call(cluster: str | None, request: dict[str, object]) -> Any:
    from kaput.operate.registry import call

    try:
        return call(entry_of(cluster), request)
    except UsageError as error:
        raise UsageError(in_options(str(error))) from None


_STARTED = "start the cluster with "


def in_options(text: str) -> str:
    """A message about a cluster's keys, with the options of kaput up that set them; not all have one."""
    text = re.sub(
        f"{_STARTED}cluster\\.(network|controllers|security): (\\S+)", rf"{_STARTED}kaput up --\1 \2", text
    )
    text = text.replace("(--allow-unknown", "(kaput up --allow-unknown")
    return text.replace(f"{_STARTED}cluster.", f"{_STARTED}kaput up SCENARIO, a file with cluster.")


_ELSEWHERE = {"fault": "FAULT", "target": "--target", "for": "--for"}


def _value(key: str, text: str) -> Any:
    import yaml

    given = f"--option {key}={text}"
    if key in _ELSEWHERE:
        raise UsageError(f"{given}: give it as {_ELSEWHERE[key]}")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        raise UsageError(f"{given}: the value is not valid YAML") from None
    # config.message.max.bytes=1000, or config=message.max.bytes=1000
    if key.startswith("config.") or (key == "config" and not isinstance(value, dict)):
        name, _, value = f"{key}={text}"[len("config.") :].partition("=")
        raise UsageError(f"{given}: write --option 'config={{{name or 'NAME'}: {value or 'VALUE'}}}'")
    return value


def _show(faults: list[dict[str, Any]], json: bool, verb: str) -> None:

    if json:
        print_json(faults, indent=2)
        return
    if not faults:
        typer.echo("no faults so far")
    for each in printable_document(faults):
        ids = ", ".join(map(str, each["brokers"]))
        of = f"{each['fault']} {each['target']}" + (f" (node {ids})" if ids else "")
        typer.echo(f"{each['id']}: {verb or each['state']}: {of}")
        typer.echo(f"  {each['proof']}")
