"""`kaput watch`: sends messages through a living cluster and tells, all the time, what becomes of them."""

from __future__ import annotations

import json as json_library
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kaput.cli.cluster_options import ClusterName, CommandConfig, Servers
from kaput.cli.verbs import Runs, pairs
from kaput.core import DEFAULT_RUNS, SECOND

if TYPE_CHECKING:
    from kaput.watch.watching import Watch

_TICK_S = 0.2
_LINE_S = 10.0  # between two lines, where there is no terminal
For = Annotated[
    str | None, typer.Option("--for", metavar="TIME", help="End after so long (10m, 1h); default: at Ctrl-C.")
]


def watch_command(
    *,
    bootstrap_servers: Servers = None,
    cluster: ClusterName = None,
    command_config: CommandConfig = None,
    for_: For = None,
    rate: Annotated[
        float, typer.Option(min=0.1, metavar="N", help="Messages a second to each broker.")
    ] = 10.0,
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="Spark master of the streaming job (default: local).")
    ] = None,
    conf: Annotated[
        list[str] | None, typer.Option("--spark-conf", metavar="KEY=VALUE", help="A setting of Spark's.")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(metavar="RUN_DIR", help="Go on with a watch that was killed.")
    ] = None,
    runs: Runs = DEFAULT_RUNS,
    json: Annotated[
        bool, typer.Option("--json", help="Print a line of JSON every 10 s, and at the end.")
    ] = False,
) -> None:
    """Watch a living cluster: is anything missing, late, duplicated or out of order?

    Messages go through a topic with a partition on each broker, and a streaming ledger tells what becomes of
    them. Ends with 0 if nothing is missing, with 1 if something is, with 3 if not everything could be read.

    Example: kaput watch --bootstrap-servers broker1:9092 --for 10m
    """
    from kaput.api.scratch import Scratch
    from kaput.cli.cluster_options import config_of, servers_of
    from kaput.cli.jars import spark_kafka_jars
    from kaput.errors import UsageError
    from kaput.java import find_java
    from kaput.processes.reaper import reap_orphans
    from kaput.processes.signals import interrupts
    from kaput.runner.folder_setup import check_runs
    from kaput.scenario.values import parse_duration_ms
    from kaput.watch.watching import Watch, WatchOptions

    try:
        limit_s = None if for_ is None else parse_duration_ms(for_) / 1000
    except ValueError as error:
        raise UsageError(f"--for {for_}: {error}") from None
    check_runs(runs)
    servers = servers_of(bootstrap_servers, cluster)
    config = config_of(bootstrap_servers, cluster, command_config)
    jars = spark_kafka_jars(find_java())
    options = WatchOptions(servers, config, runs, rate, jars, master, pairs("--spark-conf", conf))
    with interrupts(), Scratch():
        reap_orphans()
        with Watch(options, _note, resume) as watch:
            _note(f"watching {servers}; the evidence is in {watch.folder.path}")
            shown = _Lines(json)
            _until(watch, limit_s, shown.show)
            _note("reading everything back")
            final = watch.finish()
    shown.end(final)
    raise typer.Exit(_status(final))


def _until(watch: Watch, limit_s: float | None, show: Callable[[dict[str, Any]], None]) -> None:
    """Shows how it goes until the time is over, or Ctrl-C."""
    from kaput.errors import Interrupted

    began = time.monotonic()
    try:
        while limit_s is None or time.monotonic() - began < limit_s:
            time.sleep(_TICK_S)
            watch.look()
            show(watch.status())
    except Interrupted:
        if limit_s is not None:
            _note("ending early")


def _status(final: dict[str, Any]) -> int:
    if final.get("missing"):
        return 1
    return 0 if final.get("complete") and not final["troubles"] else 3


class _Lines:
    """A line now and then."""

    def __init__(self, json: bool) -> None:
        self._json = json
        self._shown_s = time.monotonic()

    def show(self, status: dict[str, Any]) -> None:
        """One more, if it is time for it."""
        if time.monotonic() - self._shown_s < _LINE_S:
            return
        self._shown_s = time.monotonic()
        self._print(status, final=False)

    def end(self, final: dict[str, Any]) -> None:
        """The last one."""
        self._print(final, final=True)

    def _print(self, status: dict[str, Any], final: bool) -> None:
        if self._json:
            typer.echo(json_library.dumps({**status, "final": final}))
        else:
            typer.echo(line_of(status))
            for trouble in status.get("troubles", ()):
                typer.echo(f"  {trouble}")
        sys.stdout.flush()


def line_of(status: dict[str, Any]) -> str:
    """What is known, in a line."""
    at = time.strftime("%H:%M:%S", time.gmtime(status.get("at_ns", time.time_ns()) / SECOND))
    if "sent" not in status:
        return f"{at}  {status['attempted']:,} attempted; the ledger has not begun"
    odd = ("missing", "late", "duplicated", "reordered")
    words = ", ".join(f"{status[name]:,} {name}" for name in odd)
    latency = status["latency_ms"]["end_to_end"]
    took = f"; end to end p50 {latency['p50']:.0f} ms, p99 {latency['p99']:.0f} ms" if latency else ""
    return f"{at}  {status['attempted']:,} attempted, {status['acked']:,} acknowledged: {words}{took}"


def _note(text: str) -> None:
    typer.echo(text, err=True)
