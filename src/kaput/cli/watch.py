"""`kaput watch`: sends messages through a living cluster and tells, all the time, what becomes of them."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO, cast

import typer

from kaput.cli.cluster_options import ClusterName, CommandConfig, Servers
from kaput.cli.verbs import Runs, pairs
from kaput.core import DEFAULT_RUNS

if TYPE_CHECKING:
    from kaput.analysis.streaming.numbering import Numbering
    from kaput.cli.watch_text import Shown
    from kaput.watch.monitoring import Monitor
    from kaput.watch.topics import TopicWatch
    from kaput.watch.watching import Watch

_TICK_S = 0.2
_STEP_S = 1.0  # between two evaluations of the alert rules
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
    topic: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOPIC", help="Watch this topic of yours instead of sending messages. Repeatable."
        ),
    ] = None,
    pattern: Annotated[
        str | None,
        typer.Option(
            metavar="REGEX", help="Numbers of your messages: (?P<number>[0-9]+), also (?P<producer>...)."
        ),
    ] = None,
    header: Annotated[
        str | None, typer.Option(metavar="NAME", help="The numbers are in this header.")
    ] = None,
    json_field: Annotated[
        str | None, typer.Option(metavar="NAME", help="The numbers are in this field of JSON.")
    ] = None,
    producer: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The header or field that names the producer of a number."),
    ] = None,
    from_start: Annotated[
        bool, typer.Option("--from-start", help="With --topic: also read what is there already.")
    ] = False,
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
    alerts: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Alert rules (default: those that kaput alerts list shows)."),
    ] = None,
    notify: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CHANNEL",
            help="Also send alerts to json:FILE, webhook:URL or alertmanager:URL. Repeatable.",
        ),
    ] = None,
    metrics: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Serve /metrics for Prometheus there.")
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print a line of JSON every 10 s, and at the end.")
    ] = False,
) -> None:
    """Watch a living cluster for missing and late messages.

    Messages go through a topic with a partition on each broker, and a streaming ledger tells what becomes of
    them. Ends with 0 if nothing is missing, with 1 if something is, with 3 if not everything could be read.

    Example: kaput watch --bootstrap-servers broker1:9092 --for 10m

    Example: kaput watch --topic orders --json-field number --producer source
    """
    from kaput.cli.cluster_options import config_of, servers_of
    from kaput.cli.jars import spark_kafka_jars
    from kaput.cli.watch_text import write_line
    from kaput.java import find_java
    from kaput.processes.reaper import reap_orphans
    from kaput.processes.signals import interrupts
    from kaput.runner.folder_setup import check_runs
    from kaput.watch.topics import TopicWatch
    from kaput.watch.watching import Watch, WatchOptions

    limit_s = _seconds(for_)
    numbering = _numbering(topic or [], pattern, header, json_field, producer)
    _check(numbering, from_start, resume)
    check_runs(runs)
    servers = servers_of(bootstrap_servers, cluster)
    config = config_of(bootstrap_servers, cluster, command_config)
    monitored = _monitor(servers, config, alerts, notify or [], metrics)
    jars = spark_kafka_jars(find_java())
    options = WatchOptions(servers, config, runs, rate, jars, master, pairs("--spark-conf", conf))
    with interrupts():
        reap_orphans()
        begun: Watch | TopicWatch = (
            Watch(options, _note, resume)
            if numbering is None
            else TopicWatch(options, topic or [], numbering, _note, from_start=from_start)
        )
        with begun as watch, monitored as monitor:
            _note(f"watching {servers}; what is found is in {watch.folder.path}")
            if monitor.address is not None:
                _note(f"metrics are at {monitor.address.url}")
            with _shown(json) as shown:
                _until(watch, monitor, limit_s, shown.show)
            _note("reading everything back; Ctrl-C ends at once")
            with interrupts():
                final = watch.finish()
    write_line(final, json, final=True)
    raise typer.Exit(_status(final))


def _shown(json: bool) -> Shown:
    from kaput.cli.watch_text import Lines, Screen

    return Screen() if sys.stdout.isatty() and not json else Lines(json)


class _Stderr(io.TextIOBase):
    """Standard error as it is at the moment: above the screen while that is drawn."""

    def write(self, text: str) -> int:
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()


def _monitor(
    servers: str, config: Path | None, alerts: Path | None, channels: list[str], metrics: str | None
) -> Monitor:
    """Raises UsageError for a mistake in a file or an option, and for a port that is taken."""
    from kaput.cluster.access import OPEN, Access
    from kaput.monitor.alerts.loading import load
    from kaput.monitor.alerts.notify.lines import Lines, text_line
    from kaput.monitor.alerts.notify.notifiers import channel_of
    from kaput.monitor.metrics_server import bind, listen_address
    from kaput.watch.monitoring import Monitor, canary_rules

    rules = canary_rules() if alerts is None else load(alerts)
    told = [
        Lines("stderr", cast(TextIO, _Stderr()), text_line, announced_only=True),
        *map(channel_of, channels),
    ]
    access = OPEN if config is None else Access.read(config)
    bound = None if metrics is None else bind(listen_address(metrics, "--metrics"), "--metrics")
    return Monitor(servers, access, rules, told, bound, _note)


def _seconds(for_: str | None) -> float | None:
    """Raises UsageError."""
    from kaput.errors import UsageError
    from kaput.scenario.values import parse_duration_ms

    try:
        return None if for_ is None else parse_duration_ms(for_) / 1000
    except ValueError as error:
        raise UsageError(f"--for {for_}: {error}") from None


def _numbering(
    topics: list[str], pattern: str | None, header: str | None, field: str | None, producer: str | None
) -> Numbering | None:
    """Where the numbers of the user's messages are; None: kaput sends its own. Raises UsageError."""
    from kaput.analysis.streaming.numbering import Kind, Numbering
    from kaput.errors import UsageError

    kinds: dict[Kind, str | None] = {"pattern": pattern, "header": header, "json": field}
    given = {kind: number for kind, number in kinds.items() if number is not None}
    if len(given) > 1 or bool(given) != bool(topics):
        raise UsageError("--topic needs one of --pattern, --header and --json-field, and they need --topic")
    for kind, number in given.items():
        if producer is not None and kind == "pattern":
            raise UsageError("--producer is for --header and --json-field; a pattern has a group `producer`")
        return Numbering(kind, None, number, producer)
    return None


def _check(numbering: Numbering | None, from_start: bool, resume: Path | None) -> None:
    """Raises UsageError for options that do not go together."""
    from kaput.errors import UsageError

    if numbering is not None:
        numbering.check()
    if from_start and numbering is None:
        raise UsageError("--from-start requires --topic")
    if resume is not None and numbering is not None:
        raise UsageError("--resume goes on with messages of kaput's own; leave out --topic")


def _until(
    watch: Watch | TopicWatch,
    monitor: Monitor,
    limit_s: float | None,
    show: Callable[[dict[str, Any]], None],
) -> None:
    """Shows how it goes until the time is over, or Ctrl-C."""
    from kaput.errors import Interrupted

    began = stepped = time.monotonic()
    try:
        while limit_s is None or time.monotonic() - began < limit_s:
            time.sleep(_TICK_S)
            watch.look()
            if time.monotonic() - stepped >= _STEP_S:
                stepped = time.monotonic()
                monitor.step(watch.samples(monitor.series))
            firing = [f"{alert.rule.name}: {alert.summary}" for alert in monitor.firing]
            show({**watch.status(), "firing": firing})
    except Interrupted:
        if limit_s is not None:
            _note("ending early")


def _status(final: dict[str, Any]) -> int:
    if final.get("missing"):
        return 1
    return 0 if final.get("complete") and not final["troubles"] else 3


def _note(text: str) -> None:
    typer.echo(text, err=True)
