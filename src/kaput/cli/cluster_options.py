"""Options that select the existing cluster of a command, and the confirmation before it is changed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from kaput.cluster.access import Access
    from kaput.cluster.kafka_cluster import ClusterAddress
    from kaput.operate.registry import ClusterEntry

Servers = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT,...", help="Your own cluster, instead of one started by kaput up."),
]
ClusterName = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="NAME",
        envvar="KAPUT_CLUSTER",
        help="Cluster to use (default: the running one).",
    ),
]
CommandConfig = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Client properties file with the security settings (Java format)."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]


def servers_of(bootstrap_servers: str | None, cluster: str | None) -> str:
    """The bootstrap servers: as given, or those of the running cluster. Raises UsageError."""
    return bootstrap_servers if bootstrap_servers is not None else entry_of(cluster).bootstrap_servers


def entry_of(cluster: str | None) -> ClusterEntry:
    """The running cluster with that name; without a name the only one. Raises UsageError."""
    from kaput.errors import UsageError
    from kaput.operate.registry import DEFAULT_NAME, directory_of, find, running

    if cluster is not None:
        return find(cluster)
    entries = running()
    if len(entries) == 1:
        return entries[0]
    if entries:
        names = ", ".join(entry.name for entry in entries)
        raise UsageError(f"{len(entries)} clusters are running ({names}); choose one with --cluster NAME")
    left = directory_of(DEFAULT_NAME).entry() is not None
    died = f" ({DEFAULT_NAME}: its daemon died; kaput down cleans up)" if left else ""
    raise UsageError(
        f"no cluster is running{died}; kaput up --detach starts one "
        "(some verbs take --bootstrap-servers instead)"
    )


def config_of(bootstrap_servers: str | None, cluster: str | None, command_config: Path | None) -> Path | None:
    """The client properties file: as given, or that of the running cluster; None if none is needed. Raises
    UsageError.
    """
    if command_config is not None or bootstrap_servers is not None:
        return command_config
    known = entry_of(cluster).client_properties
    return None if known is None else Path(known)


def access_of(bootstrap_servers: str | None, cluster: str | None, command_config: Path | None) -> Access:
    """The security settings in a client properties file. Raises UsageError."""
    from kaput.cluster.access import OPEN, Access

    path = config_of(bootstrap_servers, cluster, command_config)
    return OPEN if path is None else Access.read(path)


def standing_cluster(text: str, config: Path | None) -> ClusterAddress:
    """The cluster named by an argument: HOST:PORT,... or a cluster started by kaput up. `config`: its client
    properties file, if given. Raises UsageError.
    """
    from kaput.cluster.existing_cluster import addresses
    from kaput.cluster.kafka_cluster import ClusterAddress
    from kaput.errors import UsageError

    servers = text if ":" in text else None
    if servers is not None:
        try:
            addresses(servers)
        except UsageError:
            raise UsageError(f"{text!r} is neither HOST:PORT,... nor a cluster name") from None
    found = ClusterAddress(text, servers_of(servers, text), config_of(servers, text, config))
    found.access.librdkafka()  # reports unusable settings before anything is done
    return found


def confirmed(question: str, yes: bool) -> bool:
    """Whether the user confirms, or --yes was given. Raises UsageError without a terminal."""
    from kaput.errors import UsageError

    if yes:
        return True
    if not sys.stdin.isatty():
        raise UsageError("no terminal to ask for confirmation: add --yes, or --dry-run to see only the plan")
    return typer.confirm(question, err=True)
