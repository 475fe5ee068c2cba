"""`kaput metrics`: a Prometheus exporter for any cluster."""

from __future__ import annotations

import sys
import threading
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from kaput.cli.options import ClusterName, CommandConfig, Servers, access_of, milliseconds, servers_of
from kaput.cli.verbs import prefixed_note
from kaput.errors import Interrupted, UsageError

if TYPE_CHECKING:
    from kaput.monitor.sources.cluster_state import ClusterState

Listen = Annotated[
    str, Option(metavar="HOST:PORT", help="Serve /metrics at this address; port 0: any free port.")
]

# For commands that also serve metrics.
Metrics = Annotated[
    str | None,
    Option(metavar="HOST:PORT", help="Serve /metrics for Prometheus at this address; port 0: any free port."),
]


def metrics_command(
    *,
    bootstrap_servers: Servers = None,
    cluster: ClusterName = None,
    command_config: CommandConfig = None,
    listen: Listen = "127.0.0.1:9187",
    every: Annotated[str, Option(metavar="TIME", help="Time between polls of the brokers.")] = "2s",
    timeout: Annotated[
        str,
        Option(metavar="TIME", help="Time limit for each round of requests in a poll, and for connecting."),
    ] = "1s",
    for_: Annotated[
        str | None, Option("--for", metavar="TIME", help="Stop after this time (default: on Ctrl-C).")
    ] = None,
    otlp: Annotated[
        str | None, Option(metavar="URL", help="Also push to this OpenTelemetry collector (OTLP, HTTP).")
    ] = None,
    once: Annotated[bool, Option("--once", help="Print the current metrics and exit.")] = False,
    grafana: Annotated[
        bool, Option("--grafana", help="Print a Grafana dashboard of all signals and exit.")
    ] = False,
) -> None:
    """Serve a cluster's state as Prometheus metrics.

    Covers partitions, brokers, controllers, certificates, log directories, and lag in records and seconds.
    Keeps answering while brokers are down, changes nothing, and listens on 127.0.0.1 by default.

    Example: kaput metrics --bootstrap-servers broker1:9092 --for 10m

    Example: kaput metrics --once | grep lag_seconds
    """
    if grafana:
        from kaput.monitor.grafana import dashboard_text

        sys.stdout.write(dashboard_text())
        return
    from kaput.monitor.sources.cluster_state import ClusterState
    from kaput.monitor.sources.nodes import Nodes

    every_s, timeout_s = _seconds("--every", every), _seconds("--timeout", timeout)
    for_s = None if for_ is None else _seconds("--for", for_)
    servers = servers_of(bootstrap_servers, cluster)
    access = access_of(bootstrap_servers, cluster, command_config)
    state = ClusterState(servers, access, Nodes(timeout_s))
    if once:
        _print_once(servers, state)
    else:
        _serve(state, listen, every_s, for_s, otlp)


def _print_once(servers: str, state: ClusterState) -> None:
    """Polls twice, so that the printed times do not include setting up connections and caches."""
    from kaput.cluster.wire import unreachable
    from kaput.monitor.metrics_server import Exposition
    from kaput.monitor.sources.polling import ClusterMetrics

    troubles: list[str] = []
    metrics = ClusterMetrics(state, troubles.append)
    try:
        metrics.polling.look()
        if not state.reached:
            raise unreachable(servers, "; ".join(troubles))
        metrics.polling.look()
        for text in dict.fromkeys(troubles):
            prefixed_note(text)
        sys.stdout.write(Exposition(metrics.tables).text()[0].decode())
    finally:
        state.close()


def _serve(state: ClusterState, listen: str, every_s: float, for_s: float | None, otlp: str | None) -> None:
    from kaput.monitor.metrics_server import Exposition, bind, listen_address, serving
    from kaput.monitor.sources.polling import ClusterMetrics
    from kaput.processes.signals import interrupts

    address = listen_address(listen, "--listen")
    bound = bind(address, "--listen")
    metrics = ClusterMetrics(state, prefixed_note, every_s)
    pushing: AbstractContextManager[object] = nullcontext()
    if otlp is not None:
        from kaput.monitor.otlp import OtlpPush

        pushing = OtlpPush(otlp, metrics.tables, prefixed_note)
    metrics.polling.look()  # here, so that a wrong password or protocol ends the program
    # Ctrl-C is the normal way to end it once it serves: no message.
    with interrupts(), serving(Exposition(metrics.tables), bound) as where, suppress(KeyboardInterrupt):
        sys.stdout.write(f"{where.url}\n")
        sys.stdout.flush()
        if not where.is_local:
            prefixed_note(f"other machines can read this: {where.host} is not a loopback address")
        with metrics, pushing:
            threading.Event().wait(for_s)
            return
    raise typer.Exit(Interrupted.exit_status)


def _seconds(option: str, text: str) -> float:
    """Parses a positive duration. Raises UsageError."""
    seconds = milliseconds(option, text) / 1e3
    if seconds <= 0:
        raise UsageError(f"{option} {text}: must be longer than 0")
    return seconds
