"""`kaput tool`: Kafka's own tools, from the same jars, in place of this process."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer


def tool_command(
    name: Annotated[
        str | None,
        typer.Argument(help="topics, kafka-topics or kafka-topics.sh.", show_default=False),
    ] = None,
    arguments: Annotated[list[str] | None, typer.Argument(help="The tool's own.", metavar="ARGS...")] = None,
    *,
    cluster: Annotated[
        str | None,
        typer.Option(metavar="NAME", envvar="KAPUT_CLUSTER", help="Ask this standing cluster."),
    ] = None,
    kafka: Annotated[
        str | None,
        typer.Option(metavar="VERSION", help="Its tools; else the cluster's, or 4.3.1."),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="Name every tool.")] = False,
) -> None:
    """Run one of Kafka's tools; streams, Ctrl-C and exit status are the tool's own.

    --bootstrap-server is added where a cluster stands (kaput up) and the arguments do not say it, and with it
    how to be let in.

    Example: kaput tool topics --describe --topic orders
    """
    from kaput.cli.jars import distribution_for, more_for
    from kaput.cluster.cds import ensure_archive
    from kaput.errors import UsageError
    from kaput.java import find_java
    from kaput.operate.homes import find, standing
    from kaput.operate.tools import TOOLS, command, named
    from kaput.scenario.options import NEWEST_KAFKA

    if list_:
        width = max(map(len, TOOLS))
        for known, tool in TOOLS.items():
            typer.echo(f"{known.ljust(width)}  {tool.about}")
        return
    if name is None:
        raise UsageError("which tool? kaput tool --list names them")
    call = named(name)
    cards = [find(cluster)] if cluster is not None else standing()
    card = cards[0] if len(cards) == 1 else None
    java = find_java()
    version = kafka or (card.kafka if card is not None else NEWEST_KAFKA)
    home = card.kafka_home if card is not None and kafka is None else None
    distribution = distribution_for(version, java, None if home is None else Path(home))
    servers = card.bootstrap_servers if card is not None else None
    archive = ensure_archive(distribution, java, lambda text: None)
    if call.tool.more is not None:
        # Behind the others: the archive is of a class path that this one begins with.
        distribution = more_for(distribution, call.tool.more, java)
    access = None
    if card is not None and card.client_properties is not None:
        access = Path(card.client_properties)
        if call.tool.config is None:
            raise UsageError(f"{call.name} cannot sign in, and {card.name} lets nobody in who does not")
    words = command(call, arguments or [], servers, distribution, java, archive, access)
    sys.stdout.flush()
    # The same process: signals, streams and exit status need nobody in between.
    os.execv(words[0], words)
