"""Which cluster an operator's verb is about, and whether it may do what it has shown."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from kaput.operate.homes import Card

Servers = Annotated[
    str | None, typer.Option(metavar="HOST:PORT,...", help="Which cluster; else the one that stands.")
]
Standing = Annotated[
    str | None, typer.Option(metavar="NAME", envvar="KAPUT_CLUSTER", help="This standing cluster.")
]
CommandConfig = Annotated[
    Path | None, typer.Option(metavar="FILE", help="How to be let in: Java's client properties.")
]


def servers_of(bootstrap_servers: str | None, cluster: str | None) -> str:
    """HOST:PORT,... as given, of the standing cluster of that name, or of the only one. Raises UsageError."""
    return bootstrap_servers if bootstrap_servers is not None else card_of(cluster).bootstrap_servers


def card_of(cluster: str | None) -> Card:
    """The standing cluster of that name, or the only one. Raises UsageError."""
    from kaput.errors import UsageError
    from kaput.operate.homes import find, standing

    if cluster is not None:
        return find(cluster)
    cards = standing()
    if len(cards) != 1:
        stand = "no cluster stands" if not cards else f"{len(cards)} clusters stand"
        raise UsageError(f"which cluster? {stand}; say --bootstrap-servers HOST:PORT or --cluster NAME")
    return cards[0]


def access_of(command_config: Path | None) -> dict[str, Any]:
    """How kafka-python is let in. Raises UsageError."""
    from kaput.operate.clients import for_asking, read_properties

    return for_asking(read_properties(command_config), command_config) if command_config else {}


def confirmed(question: str, yes: bool) -> bool:
    """Whether a person, or --yes, says so. Raises UsageError where nobody can be asked."""
    from kaput.errors import UsageError

    if yes:
        return True
    if not sys.stdin.isatty():
        raise UsageError("nobody can be asked here (no terminal): say --yes, or --dry-run to see it alone")
    return typer.confirm(question, err=True)
