"""`kaput peek`: records of one partition as one named replica has them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kaput.cli.which import CommandConfig, Servers, Standing, access_of, card_of, servers_of
from kaput.printable import printable

if TYPE_CHECKING:
    from kaput.cluster.records import Record
    from kaput.operate.peeking import Peek


def peek_command(
    place: Annotated[str, typer.Argument(metavar="TOPIC/PARTITION", help="Of which partition.")],
    *,
    replica: Annotated[int, typer.Option(min=0, help="The broker whose replica is read, leader or not.")],
    offset: Annotated[
        int, typer.Option("--offset", help="From here on; negative: so many before its end.")
    ] = 0,
    count: Annotated[int, typer.Option(min=0, help="So many records at most.")] = 10,
    bootstrap_servers: Servers = None,
    cluster: Standing = None,
    command_config: CommandConfig = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> None:
    """Read a partition from one named replica, leader or not; a follower shows what is new a moment later.

    All that it has is shown, records of aborted transactions too. Of a standing cluster also a replica whose
    broker is down: from its files.

    Example: kaput peek orders/0 --replica 2 --offset -5
    """
    import json as library

    from kaput.core import TopicPartition
    from kaput.errors import UsageError
    from kaput.operate.peeking import Wanted, peek
    from kaput.operate.rights import knock

    topic, slash, partition = place.rpartition("/")
    if not slash or not topic or not partition.isdigit():
        raise UsageError(f"{place!r} is no partition; write TOPIC/PARTITION, for example orders/0")
    # The files of a broker that is down are within reach where the cluster is kaput's own.
    folder = None if bootstrap_servers is not None else Path(card_of(cluster).folder)
    servers = servers_of(bootstrap_servers, cluster)
    access = access_of(bootstrap_servers, cluster, command_config)
    if bootstrap_servers is not None:  # kaput knows how to be let into a cluster of its own
        knock(servers, access)
    found = peek(
        servers, TopicPartition(topic, int(partition)), replica, Wanted(offset, count), folder, access
    )
    if json:
        typer.echo(library.dumps(_document(found)))
        return
    leader = "nobody leads" if found.leader is None else f"broker {found.leader} leads"
    role = "the leader" if found.leader == replica else f"a follower ({leader})"
    down = ", which is down: from its files" if found.source == "files" else ""
    reach = f"from offset {found.start:,} to before {found.end:,}"
    typer.echo(f"{place} at broker {replica}, {role}{down}: {reach}", err=True)
    for record in found.records:
        typer.echo(_line(record))


def _line(record: Record) -> str:
    headers = " ".join(f"{printable(name)}={_shown(value)}" for name, value in record.headers)
    words = [
        f"offset {record.offset}",
        f"epoch {record.leader_epoch}",
        f"time {record.timestamp_ms}",
        f"key {_shown(record.key)}",
        *([f"headers {headers}"] if headers else []),
        f"value {_shown(record.value)}",
    ]
    return "  ".join(words)


def _shown(data: bytes | None) -> str:
    """In one line; - for none."""
    text = _text(data)
    return "-" if text is None else printable(text)


def _text(data: bytes | None) -> str | None:
    """As text where it is some, and what is none of it as \\xNN; None for none."""
    return None if data is None else data.decode("utf-8", errors="backslashreplace")


def _document(found: Peek) -> dict[str, Any]:
    return {
        "topic": found.place[0],
        "partition": found.place[1],
        "replica": found.replica,
        "leader": found.leader,
        "source": found.source,
        "log_start_offset": found.start,
        "log_end_offset": found.end,
        "records": [
            {
                "offset": record.offset,
                "leader_epoch": record.leader_epoch,
                "timestamp_ms": record.timestamp_ms,
                "key": _text(record.key),
                "value": _text(record.value),
                "headers": [[name, _text(value)] for name, value in record.headers],
            }
            for record in found.records
        ],
    }
