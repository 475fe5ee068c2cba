"""`kaput replay`: a topic into another one, each record once, with progress; started again it goes on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from kaput.cli.which import CommandConfig, Servers, Standing, access_of, servers_of

if TYPE_CHECKING:
    from kaput.operate.replaying import Progress


def replay_command(
    source: Annotated[str, typer.Argument(help="The topic that is read, as far as it goes now.")],
    target: Annotated[str, typer.Argument(help="The topic that it is written to; it must be there.")],
    *,
    rate: Annotated[
        float | None, typer.Option(min=0.001, help="Messages a second at most.", show_default=False)
    ] = None,
    id_: Annotated[
        str | None, typer.Option("--id", help="What it is known by (kaput-replay-SOURCE-TARGET).")
    ] = None,
    config: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A setting of librdkafka for both sides.")
    ] = None,
    bootstrap_servers: Servers = None,
    cluster: Standing = None,
    command_config: CommandConfig = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> None:
    """Copy a topic into another one: keys, values, headers, timestamps, partitions and order stay.

    Whoever reads committed records finds each one once, also where the replay was killed and started again:
    it goes on where it was, by what its --id has committed.

    Example: kaput replay orders orders-again --rate 1000
    """
    import json as library

    from kaput.cli.progress import RecordsProgress
    from kaput.errors import UsageError
    from kaput.operate.replay_plan import Replay
    from kaput.operate.replaying import replay
    from kaput.operate.rights import knock

    wrong = [text for text in config or [] if "=" not in text]
    if wrong:
        raise UsageError(f"--config {wrong[0]}: write KEY=VALUE")
    servers = servers_of(bootstrap_servers, cluster)
    name = id_ or f"kaput-replay-{source}-{target}"
    access = access_of(bootstrap_servers, cluster, command_config)
    knock(servers, access)
    settings = {**access.librdkafka(), **dict(text.split("=", 1) for text in config or [])}
    with RecordsProgress(f"{source} to {target}") as bar:

        def tell(state: Mapping[int, Progress]) -> None:
            ends = list(state.values())
            bar.tell(sum(one.offset for one in ends), sum(one.end for one in ends))

        done = replay(Replay(servers, source, target, name, rate, settings), tell)
    copied, now = (sum(getattr(one, key) for one in done.values()) for key in ("copied", "now"))
    if json:
        partitions = {str(partition): one.copied for partition, one in sorted(done.items())}
        document = {"id": name, "copied": copied, "copied_now": now, "partitions": partitions}
        typer.echo(library.dumps(document))
        return
    before = f", {copied - now:,} of them before" if copied > now else ""
    typer.echo(f"{source} to {target}: {copied:,} records in {len(done)} partitions{before}")
