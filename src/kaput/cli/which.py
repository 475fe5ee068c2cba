"""Which cluster an operator's verb is about, and whether it may do what it has shown."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from kaput.cluster.access import Access
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


def config_of(bootstrap_servers: str | None, cluster: str | None, command_config: Path | None) -> Path | None:
    """The file by which clients are let in: as given, or that of the standing cluster; None where everybody
    is. Raises UsageError.
    """
    if command_config is not None or bootstrap_servers is not None:
        return command_config
    known = card_of(cluster).client_properties
    return None if known is None else Path(known)


def access_of(bootstrap_servers: str | None, cluster: str | None, command_config: Path | None) -> Access:
    """How to be let in, by what config_of finds. Raises UsageError."""
    from kaput.cluster.access import OPEN, Access

    path = config_of(bootstrap_servers, cluster, command_config)
    return OPEN if path is None else Access.read(path)


def confirmed(question: str, yes: bool) -> bool:
    """Whether a person, or --yes, says so. Raises UsageError where nobody can be asked."""
    from kaput.errors import UsageError

    if yes:
        return True
    if not sys.stdin.isatty():
        raise UsageError("nobody can be asked here (no terminal): say --yes, or --dry-run to see it alone")
    return typer.confirm(question, err=True)
