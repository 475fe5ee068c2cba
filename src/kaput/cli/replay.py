"""`kaput replay`: copies a topic to another exactly once; resumable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from kaput.cli.options import ClientSettings, ClusterName, CommandConfig, Json, Servers, access_of, servers_of
from kaput.cli.verbs import pairs, print_json

if TYPE_CHECKING:
    from kaput.operate.topic_copy import CopyProgress


def replay_command(
    source: Annotated[str, Argument(metavar="SOURCE", help="Topic to read, up to its current end.")],
    target: Annotated[str, Argument(metavar="TARGET", help="Topic to write to; it must exist.")],
    *,
    rate: Annotated[
        float | None, Option(min=0.001, metavar="N", help="Maximum number of messages per second.")
    ] = None,
    id_: Annotated[
        str | None,
        Option("--id", metavar="ID", help="Name to resume it by (default: kaput-replay-SOURCE-TARGET)."),
    ] = None,
    client_setting: ClientSettings = None,
    bootstrap_servers: Servers = None,
    cluster: ClusterName = None,
    command_config: CommandConfig = None,
    json: Json = False,
) -> None:
    """Copy one topic to another exactly once.

    Keys, values, headers, timestamps, partitions and order stay the same. Consumers that read committed
    records see each record once, even if the replay was killed and restarted: with the same --id it continues
    where it stopped.

    Example: kaput replay orders orders-again --rate 1000
    """

    from kaput.cli.progress import CountProgress
    from kaput.operate.topic_copy import TopicCopy, replay

    given = pairs("--client-setting", client_setting)
    servers = servers_of(bootstrap_servers, cluster)
    name = id_ or f"kaput-replay-{source}-{target}"
    access = access_of(bootstrap_servers, cluster, command_config)
    settings = {**access.librdkafka(), **given}
    with CountProgress(f"{source} to {target}") as bar:

        def tell(state: Mapping[int, CopyProgress]) -> None:
            ends = list(state.values())
            bar.tell(sum(one.offset for one in ends), sum(one.end for one in ends))

        done = replay(TopicCopy(servers, source, target, name, rate, settings, access), tell)
    copied, now = (sum(getattr(one, key) for one in done.values()) for key in ("copied", "now"))
    if json:
        partitions = {str(partition): one.copied for partition, one in sorted(done.items())}
        document = {"id": name, "copied": copied, "copied_now": now, "partitions": partitions}
        print_json(document)
        return
    before = f", {copied - now:,} of them earlier" if copied > now else ""
    typer.echo(f"{source} to {target}: {copied:,} records in {len(done)} partitions{before}")
