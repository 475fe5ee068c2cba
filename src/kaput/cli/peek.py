"""`kaput peek`: reads a partition from one replica."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from kaput.cli.options import ClusterName, CommandConfig, Json, Servers, access_of, entry_of, servers_of
from kaput.cli.verbs import print_json
from kaput.core import TopicPartition
from kaput.errors import UsageError
from kaput.printable import printable

if TYPE_CHECKING:
    from kaput.cluster.record_batches import LogRecord
    from kaput.operate.replica_reader import Peek


def peek_command(
    place: Annotated[str, Argument(metavar="TOPIC/PARTITION", help="Partition to read.")],
    *,
    replica: Annotated[int, Option(min=0, metavar="BROKER", help="Broker to read from, leader or not.")],
    offset: Annotated[int, Option(metavar="N", help="First offset; negative counts from the end.")] = 0,
    count: Annotated[int, Option(min=0, metavar="N", help="Maximum number of records.")] = 10,
    bootstrap_servers: Servers = None,
    cluster: ClusterName = None,
    command_config: CommandConfig = None,
    json: Json = False,
) -> None:
    """Read a partition from one replica, leader or not.

    Shows everything the replica has, including records of aborted transactions. A follower shows new records
    a moment later. If the broker of a cluster started by kaput up is down, its files are read.

    Example: kaput peek orders/0 --replica 2 --offset -5
    """

    from kaput.cluster.admin.client import check_access
    from kaput.operate.replica_reader import RecordRange, peek

    topic, slash, partition = place.rpartition("/")
    if not slash or not topic or not partition.isdecimal():
        raise UsageError(f"{place!r} is not a partition; write TOPIC/PARTITION, for example orders/0")
    # The files of kaput's own brokers can be read even while the broker is down.
    folder = None if bootstrap_servers is not None else Path(entry_of(cluster).folder)
    servers = servers_of(bootstrap_servers, cluster)
    access = access_of(bootstrap_servers, cluster, command_config)
    if bootstrap_servers is not None:  # kaput can always sign in to its own clusters
        check_access(servers, access)
    partition_id = TopicPartition(topic, int(partition))
    peeked = peek(servers, partition_id, replica, RecordRange(offset, count), folder, access)
    if json:
        print_json(_document(peeked))
        return
    leader = "no leader" if peeked.leader is None else f"broker {peeked.leader} leads"
    role = "the leader" if peeked.leader == replica else f"a follower ({leader})"
    down = ", which is down; read from its files" if peeked.source == "files" else ""
    reach = f"offsets {peeked.start:,} to {peeked.end - 1:,}" if peeked.end > peeked.start else "empty"
    typer.echo(f"{place} at broker {replica}, {role}{down}: {reach}", err=True)
    for record in peeked.records:
        typer.echo(_line(record))


def _line(record: LogRecord) -> str:
    headers = " ".join(f"{printable(name)}={_one_line(value)}" for name, value in record.headers)
    words = [
        f"offset {record.offset}",
        f"epoch {record.leader_epoch}",
        f"time {record.timestamp_ms}",
        f"key {_one_line(record.key)}",
        *([f"headers {headers}"] if headers else []),
        f"value {_one_line(record.value)}",
    ]
    return "  ".join(words)


def _one_line(data: bytes | None) -> str:
    """The bytes as text on one line; - for null."""
    text = _text(data)
    return "-" if text is None else printable(text)


def _text(data: bytes | None) -> str | None:
    """The bytes as text, with invalid UTF-8 as \\xNN; None for null."""
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
