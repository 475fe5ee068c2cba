"""`kaput tool`: replaces this process with one of Kafka's own tools, from the same jars."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from kaput.cli import completion
from kaput.cli.options import ClusterName
from kaput.cli.verbs import print_json
from kaput.core import NEWEST_KAFKA
from kaput.errors import UsageError


def tool_command(
    name: Annotated[
        str | None,
        Argument(
            metavar="TOOL",
            autocompletion=completion.tools,
            help="For example topics, kafka-topics or kafka-topics.sh.",
        ),
    ] = None,
    arguments: Annotated[list[str] | None, Argument(metavar="ARG", help="The tool's own arguments.")] = None,
    *,
    cluster: ClusterName = None,
    kafka: Annotated[
        str | None,
        Option(
            metavar="VERSION", help=f"Kafka version of the tools (default: the cluster's, or {NEWEST_KAFKA})."
        ),
    ] = None,
    list_: Annotated[bool, Option("--list", help="List the tools.")] = False,
    json: Annotated[bool, Option("--json", help="With --list: print JSON.")] = False,
) -> None:
    """Run one of Kafka's own tools.

    If a cluster started by kaput up is running, --bootstrap-server and its client properties are added unless
    given; --cluster may be anywhere. Output, Ctrl-C and exit status are the tool's own.

    Example: kaput tool topics --describe --topic orders
    """
    from kaput.cli.jars import distribution_for, more_for
    from kaput.cluster.cds import ensure_archive
    from kaput.cluster.lock import version_with
    from kaput.java import find_java
    from kaput.operate.registry import find, running
    from kaput.operate.tools import command, find_tool

    if json and not list_:
        raise UsageError("--json requires --list; it does not change what a tool prints")
    if list_:
        _list_tools(json)
        return
    if name is None:
        raise UsageError("name a tool; kaput tool --list lists them")
    call = find_tool(name)
    arguments = arguments or []
    if call.name != "run-class":  # a class may have any option
        named, arguments = _cluster_of(arguments)
        cluster = named or cluster
    entries = [find(cluster)] if cluster is not None else running()
    entry = entries[0] if len(entries) == 1 else None
    java = find_java()
    version = kafka or (entry.kafka if entry is not None else NEWEST_KAFKA)
    if call.tool.more is not None and kafka is None:
        version = version_with(call.tool.more, version)
    home = entry.kafka_home if entry is not None and kafka is None else None
    distribution = distribution_for(version, java, None if home is None else Path(home))
    servers = entry.bootstrap_servers if entry is not None else None
    archive = ensure_archive(distribution, java, lambda text: None)
    if call.tool.more is not None:
        # Appended: the class data archive requires that the class path starts with the archive's own.
        distribution = more_for(distribution, call.tool.more, java)
    access = None
    if entry is not None and entry.client_properties is not None:
        access = Path(entry.client_properties)
        if call.tool.config is None:
            raise UsageError(f"{call.name} cannot authenticate, and cluster {entry.name} requires it")
    words = command(call, arguments, servers, distribution, java, archive, access)
    sys.stdout.flush()
    # The same process, so signals, streams and exit status are the tool's.
    os.execv(words[0], words)


def _list_tools(json: bool) -> None:
    from kaput.operate.tools import TOOLS

    if json:
        print_json({known: tool.about for known, tool in TOOLS.items()}, indent=2)
        return
    width = max(map(len, TOOLS))
    for known, tool in TOOLS.items():
        typer.echo(f"{known.ljust(width)}  {tool.about}")


def _cluster_of(arguments: list[str]) -> tuple[str | None, list[str]]:
    """The name in `--cluster NAME` among the tool's arguments, which is ours (no tool of Kafka's has that
    option), and the other arguments. Raises UsageError.
    """
    found, rest, words = None, list[str](), iter(arguments)
    for word in words:
        option, equals, value = word.partition("=")
        if option != "--cluster":
            rest.append(word)
        elif not (found := value if equals else next(words, "")):
            raise UsageError("--cluster needs the name of a cluster")
    return found, rest
