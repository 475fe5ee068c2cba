"""`kaput watch`: sends messages through a living cluster and continuously reports missing and late ones."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

import typer

from kaput.cli.cluster_options import ClusterName, CommandConfig, Servers
from kaput.cli.metrics import Metrics
from kaput.cli.verbs import Runs, pairs
from kaput.cli.watch_options import (
    AlertRules,
    Audit,
    FindingsTopicName,
    For,
    FromStart,
    Group,
    Header,
    JsonField,
    JsonLines,
    Master,
    Mirror,
    MirrorConfig,
    MirrorPrefix,
    Notify,
    Pattern,
    ProducerName,
    Rate,
    Resume,
    SparkConf,
    Topics,
    audit_of,
    check_together,
    numbering_of,
)
from kaput.core import DEFAULT_RUNS

if TYPE_CHECKING:
    from kaput.analysis.streaming.numbering import Numbering
    from kaput.cli.watch_text import Display, Look
    from kaput.watch.audits import AuditOptions
    from kaput.watch.findings_topic import FindingsTopic
    from kaput.watch.monitoring import Monitor
    from kaput.watch.options import WatchOptions
    from kaput.watch.topics import TopicWatch
    from kaput.watch.watching import Watch

_TICK_S = 0.2
_STEP_S = 1.0  # between two evaluations of the alert rules


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

    Example: kaput watch --topic orders --json-field number --producer source

    Example: kaput watch --topic orders --audit --group billing
    """
    from kaput.cli.cluster_options import config_of, servers_of
    from kaput.cli.durations import milliseconds
    from kaput.cli.jars import spark_kafka_jars
    from kaput.cli.watch_text import write_line
    from kaput.java import find_java
    from kaput.processes.ending import reap_orphans
    from kaput.processes.signals import interrupts
    from kaput.runner.folder_setup import check_runs
    from kaput.watch.options import WatchOptions
    from kaput.watch.watching import Watch

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
        topic_watch = _topic_watch(options, topics, numbering, audited, from_start) if topics else None
        chosen = topic_watch or Watch(options, _note, resume)
        with chosen as watch, monitored as monitor, _publisher(findings_topic, options, watch) as published:
            final = _run_watch(watch, monitor, published, limit_s, json)
    write_line(final, json, final=True)
    raise typer.Exit(_status(final))


def _topic_watch(
    options: WatchOptions,
    topics: list[str],
    numbering: Numbering | None,
    audited: AuditOptions | None,
    from_start: bool,
) -> TopicWatch:
    from kaput.watch.audits import AuditWatch
    from kaput.watch.topics import TopicWatch

    if audited is not None:
        return AuditWatch(options, topics, audited, _note, from_start=from_start)
    return TopicWatch(options, topics, numbering, _note, from_start=from_start)


def _run_watch(
    watch: Watch | TopicWatch,
    monitor: Monitor,
    published: FindingsTopic | None,
    limit_s: float | None,
    json: bool,
) -> dict[str, Any]:
    """Runs a watch to its end; returns the final status."""
    from kaput.processes.signals import interrupts

    _note(f"watching {monitor.servers}; findings are in {watch.folder.path}")
    if monitor.address is not None:
        _note(f"metrics are at {monitor.address.url}")
    with _display(json) as shown:
        _run_until(watch, monitor, published, limit_s, shown.show)
    _note("reading everything back; Ctrl-C stops immediately")
    with interrupts():
        final = watch.finish()
    if published is not None:
        published.write(final, final=True)
    return final


def _display(json: bool) -> Display:
    from kaput.cli.watch_text import Lines, Screen

    return Screen() if sys.stdout.isatty() and not json else Lines(json)


@contextmanager
def _publisher(
    topic: str | None, options: WatchOptions, watch: Watch | TopicWatch
) -> Iterator[FindingsTopic | None]:
    from kaput.watch.findings_topic import FindingsTopic

    if topic is None:
        yield None
        return
    with FindingsTopic(options, topic, watch.folder.path.name) as published:
        yield published


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
    from kaput.cluster.access import OPEN, Access
    from kaput.monitor.alerts.channels import LineChannel, channel_of, text_line
    from kaput.monitor.alerts.rules import load
    from kaput.monitor.metrics_server import bind, listen_address
    from kaput.watch.monitoring import Monitor, canary_rules

    rules = canary_rules() if alerts is None else load(alerts)
    all_channels = [
        LineChannel("stderr", cast(TextIO, _Stderr()), text_line, announced_only=True),
        *map(channel_of, channels),
    ]
    access = OPEN if config is None else Access.read(config)
    bound = None if metrics is None else bind(listen_address(metrics, "--metrics"), "--metrics")
    return Monitor(servers, access, rules, all_channels, bound, _note)


def _run_until(
    watch: Watch | TopicWatch,
    monitor: Monitor,
    published: FindingsTopic | None,
    limit_s: float | None,
    show: Callable[[Look], None],
) -> None:
    """Runs and shows a watch until the time limit or Ctrl-C."""
    from kaput.errors import Interrupted

    began = stepped = time.monotonic()
    try:
        while limit_s is None or time.monotonic() - began < limit_s:
            time.sleep(_TICK_S)
            watch.look()
            if time.monotonic() - stepped >= _STEP_S:
                stepped = time.monotonic()
                monitor.step(watch.samples(monitor.series))
            show(lambda: {**watch.status(), "firing": monitor.firing})
            if published is not None and published.due():
                published.write({**watch.status(), "firing": monitor.firing})
    except Interrupted:
        if limit_s is not None:
            _note("stopping early")


def _status(final: dict[str, Any]) -> int:
    if final.get("missing"):
        return 1
    return 0 if final.get("complete") and not final["troubles"] else 3


def _note(text: str) -> None:
    typer.echo(text, err=True)
