"""`kaput watch`: sends messages through a live cluster and continuously reports missing and late ones.

First its options and checks of their combinations, then the command.
"""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO, cast

import typer
from typer import Option

from kaput.cli.metrics import Metrics
from kaput.cli.options import (
    ClusterName,
    CommandConfig,
    Servers,
    SparkConf,
    config_of,
    milliseconds,
    servers_of,
)
from kaput.cli.verbs import Runs, note, pairs
from kaput.core import DEFAULT_RUNS
from kaput.errors import Interrupted, UsageError

if TYPE_CHECKING:
    from kaput.analysis.streaming.numbering import Numbering
    from kaput.cli.watch_text import Look
    from kaput.watch.findings_topic import FindingsTopic
    from kaput.watch.ledger_job import WatchOptions
    from kaput.watch.monitoring import Monitor
    from kaput.watch.topics import AuditOptions, TopicWatch
    from kaput.watch.watching import Watch


_STEP_S = 1.0  # between two evaluations of the alert rules


For = Annotated[
    str | None, Option("--for", metavar="TIME", help="Stop after this time: 10m, 1h (default: on Ctrl-C).")
]
Rate = Annotated[float, Option(min=0.1, metavar="N", help="Messages per second to each broker.")]
Topics = Annotated[
    list[str] | None,
    Option(metavar="TOPIC", help="Watch your own topic instead of sending messages. Repeatable."),
]
Pattern = Annotated[
    str | None,
    Option(
        metavar="REGEX",
        help="Where the numbers are in your messages: (?P<number>[0-9]+), optionally (?P<producer>...).",
    ),
]
Header = Annotated[str | None, Option(metavar="NAME", help="Header with the message numbers.")]
JsonField = Annotated[str | None, Option(metavar="NAME", help="JSON field with the message numbers.")]
ProducerName = Annotated[
    str | None, Option("--producer-field", metavar="NAME", help="Header or field that names the producer.")
]
FromStart = Annotated[bool, Option("--from-start", help="With --topic: also read existing messages.")]
Audit = Annotated[bool, Option("--audit", help="With --topic: compare counts; messages need no numbers.")]
Group = Annotated[
    list[str] | None,
    Option(
        metavar="GROUP", help="With --audit: count what this group has committed as consumed. Repeatable."
    ),
]
Mirror = Annotated[
    str | None,
    Option(metavar="HOST:PORT,...", help="With --audit: a second cluster with copies of the topics."),
]
MirrorPrefix = Annotated[
    str, Option(metavar="PREFIX", help="Prefix of the copies' names, such as dc1. (default: none).")
]
MirrorConfig = Annotated[
    Path | None, Option(metavar="FILE", help="Client properties file for the second cluster.")
]
FindingsTopicName = Annotated[
    str | None,
    Option(
        "--findings-topic", metavar="TOPIC", help="Also write findings to this topic, such as kaput.findings."
    ),
]
Master = Annotated[
    str | None, Option(metavar="URL", help="Spark master of the streaming job (default: local).")
]
Resume = Annotated[Path | None, Option(metavar="RUN_DIR", help="Continue a killed watch.")]
AlertRules = Annotated[
    Path | None,
    Option(metavar="FILE", help="Alert rules file (default: the built-in rules except low-send-rate)."),
]
Notify = Annotated[
    list[str] | None,
    Option(
        metavar="CHANNEL", help="Also send alerts to json:FILE, webhook:URL or alertmanager:URL. Repeatable."
    ),
]
JsonLines = Annotated[bool, Option("--json", help="Print a line of JSON every 10 s, and at the end.")]


def numbering_of(
    topics: list[str],
    pattern: str | None,
    header: str | None,
    field: str | None,
    producer: str | None,
    audit: bool = False,
) -> Numbering | None:
    """How the user's messages are numbered; None: not by the user, or only counted. Raises UsageError."""
    from kaput.analysis.streaming.numbering import Kind, Numbering

    kinds: dict[Kind, str | None] = {"pattern": pattern, "header": header, "json": field}
    given = {kind: number for kind, number in kinds.items() if number is not None}
    if len(given) + audit > 1 or bool(given or audit) != bool(topics):
        ways = "--pattern, --header, --json-field and --audit"
        raise UsageError(f"--topic requires one of {ways}, and they require --topic")
    for kind, number in given.items():
        if producer is not None and kind == "pattern":
            raise UsageError(
                "--producer-field is for --header and --json-field; in a pattern, use the group `producer`"
            )
        return Numbering(kind, None, number, producer)
    return None


def audit_of(
    audit: bool, groups: list[str], mirror: str | None, prefix: str, config: Path | None
) -> AuditOptions | None:
    """The options of an audit; None without --audit. Raises UsageError for options that need it."""
    from kaput.watch.topics import AuditOptions

    if not audit and (groups or mirror is not None):
        raise UsageError("--group and --mirror require --audit")
    if mirror is None and (prefix or config is not None):
        raise UsageError("--mirror-prefix and --mirror-config require --mirror")
    return AuditOptions(groups, mirror, prefix, config) if audit else None


def check_together(
    numbering: Numbering | None, topics: list[str], from_start: bool, resume: Path | None
) -> None:
    """Raises UsageError for incompatible options."""
    if numbering is not None:
        numbering.check()
    if from_start and not topics:
        raise UsageError("--from-start requires --topic")
    if resume is not None and topics:
        raise UsageError("--resume continues a watch that sends kaput's own messages; leave out --topic")


def watch_command(
    *,
    bootstrap_servers: Servers = None,
    cluster: ClusterName = None,
    command_config: CommandConfig = None,
    for_: For = None,
    rate: Rate = 10.0,
    topic: Topics = None,
    pattern: Pattern = None,
    header: Header = None,
    json_field: JsonField = None,
    producer: ProducerName = None,
    from_start: FromStart = False,
    audit: Audit = False,
    group: Group = None,
    mirror: Mirror = None,
    mirror_prefix: MirrorPrefix = "",
    mirror_config: MirrorConfig = None,
    master: Master = None,
    conf: SparkConf = None,
    resume: Resume = None,
    runs: Runs = DEFAULT_RUNS,
    alerts: AlertRules = None,
    notify: Notify = None,
    metrics: Metrics = None,
    findings_topic: FindingsTopicName = None,
    json: JsonLines = False,
) -> None:
    """Watch a live cluster for missing and late messages.

    By default, sends messages through a topic with a partition on each broker; a streaming ledger tracks each
    message. Exit status: 0 if nothing is missing, 1 if something is, 3 if not everything could be read.

    Example: kaput watch --bootstrap-servers broker1:9092 --for 10m

    Example: kaput watch --topic orders --json-field n --producer-field source

    Example: kaput watch --topic orders --audit --group billing
    """
    from kaput.cli.jars import spark_kafka_jars
    from kaput.cli.watch_text import write_line
    from kaput.java import find_java
    from kaput.processes.ending import reap_orphans
    from kaput.processes.signals import interrupts
    from kaput.runner.folder_setup import check_runs
    from kaput.watch.findings_topic import FindingsTopic
    from kaput.watch.ledger_job import WatchOptions

    limit_s = None if for_ is None else milliseconds("--for", for_) / 1000
    topics = topic or []
    numbering = numbering_of(topics, pattern, header, json_field, producer, audit)
    audited = audit_of(audit, group or [], mirror, mirror_prefix, mirror_config)
    check_together(numbering, topics, from_start, resume)
    check_runs(runs)
    servers = servers_of(bootstrap_servers, cluster)
    config = config_of(bootstrap_servers, cluster, command_config)
    monitored = _monitor(servers, config, alerts, notify or [], metrics)
    jars = spark_kafka_jars(find_java())
    options = WatchOptions(servers, config, runs, rate, jars, master, pairs("--spark-conf", conf))
    with interrupts():
        reap_orphans()
        chosen = _watch(options, topics, numbering, audited, from_start, resume)
        with chosen as watch, monitored as monitor, ExitStack() as stack:
            published = None
            if findings_topic is not None:
                published = FindingsTopic(options, findings_topic, watch.folder.path.name)
                stack.enter_context(published)
            final = _run_watch(watch, monitor, published, limit_s, json)
    write_line(final, json, final=True)
    raise typer.Exit(_status(final))


def _watch(
    options: WatchOptions,
    topics: list[str],
    numbering: Numbering | None,
    audited: AuditOptions | None,
    from_start: bool,
    resume: Path | None,
) -> Watch | TopicWatch:
    from kaput.watch.topics import AuditWatch, TopicWatch
    from kaput.watch.watching import Watch

    if audited is not None:
        return AuditWatch(options, topics, audited, note, from_start=from_start)
    if topics:
        return TopicWatch(options, topics, numbering, note, from_start=from_start)
    return Watch(options, note, resume)


def _status(final: dict[str, Any]) -> int:
    if final.get("missing"):
        return 1
    return 0 if final.get("complete") and not final["troubles"] else 3


def _run_watch(
    watch: Watch | TopicWatch,
    monitor: Monitor,
    published: FindingsTopic | None,
    limit_s: float | None,
    json: bool,
) -> dict[str, Any]:
    """Runs a watch to its end; returns the final status."""
    from kaput.cli.watch_text import Lines, Screen
    from kaput.processes.signals import interrupts

    note(f"watching {monitor.servers}; findings are in {watch.folder.path}")
    if monitor.address is not None:
        note(f"metrics are at {monitor.address.url}")
    shown: Screen | Lines = Screen() if sys.stdout.isatty() and not json else Lines(json)
    with shown:
        _run_until(watch, monitor, published, limit_s, shown.show)
    note("reading everything back; Ctrl-C stops immediately")
    with interrupts():
        final = watch.finish()
    if published is not None:
        published.write(final, final=True)
    return final


class _Stderr(io.TextIOBase):
    """The current sys.stderr, which is above the screen while that is drawn."""

    def write(self, text: str) -> int:
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()


def _monitor(
    servers: str, config: Path | None, alerts: Path | None, channels: list[str], metrics: str | None
) -> Monitor:
    """The monitor. Raises UsageError for a mistake in a file or an option, and for a port in use."""
    from kaput.cluster.access import Access
    from kaput.monitor.alerts.channels import LineChannel, channel_of, text_line
    from kaput.monitor.alerts.rules import load
    from kaput.monitor.metrics_server import bind, listen_address
    from kaput.watch.monitoring import Monitor, canary_rules

    rules = canary_rules() if alerts is None else load(alerts)
    all_channels = [
        LineChannel("stderr", cast(TextIO, _Stderr()), text_line, announced_only=True),
        *map(channel_of, channels),
    ]
    access = Access.of(config)
    bound = None if metrics is None else bind(listen_address(metrics, "--metrics"), "--metrics")
    return Monitor(servers, access, rules, all_channels, bound, note)


def _run_until(
    watch: Watch | TopicWatch,
    monitor: Monitor,
    published: FindingsTopic | None,
    limit_s: float | None,
    show: Callable[[Look], None],
) -> None:
    """Runs and shows a watch until the time limit or Ctrl-C."""
    began = stepped = time.monotonic()
    try:
        while limit_s is None or time.monotonic() - began < limit_s:
            time.sleep(0.2)
            watch.look()
            if time.monotonic() - stepped >= _STEP_S:
                stepped = time.monotonic()
                monitor.step(watch.samples(monitor.series))
            show(lambda: {**watch.status(), "firing": monitor.firing})
            if published is not None and published.due():
                published.write({**watch.status(), "firing": monitor.firing})
    except Interrupted:
        if limit_s is not None:
            note("stopping early")
