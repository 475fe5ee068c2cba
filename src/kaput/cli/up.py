"""`kaput up`: a cluster that runs until `kaput down`, in this terminal or in the background."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from kaput.cli.metrics import Metrics
from kaput.cli.options import (
    AllowUnknown,
    BrokerConfig,
    Brokers,
    ClusterScenario,
    Controllers,
    Json,
    Kafka,
    KafkaHome,
    Mode,
    Network,
    Racks,
    Security,
    standing_block,
)
from kaput.cli.verbs import note, print_json
from kaput.core import DEFAULT_RUNS
from kaput.errors import LabError, UsageError

if TYPE_CHECKING:
    from kaput.dashboard.sidecar import Sidecar
    from kaput.operate.registry import ClusterDirectory, ClusterEntry

DEFAULT_NAME = "lab"  # as in operate/registry.py, which is imported later

_START_TIMEOUT_S = 180.0  # without fetching jars


def up_command(
    scenario: ClusterScenario = None,
    *,
    brokers: Brokers = None,
    controllers: Controllers = None,
    racks: Racks = None,
    mode: Mode = None,
    kafka: Kafka = None,
    network: Network = None,
    security: Security = None,
    config: BrokerConfig = None,
    kafka_home: KafkaHome = None,
    cluster: Annotated[
        str, Option("--cluster", "--name", metavar="NAME", help="Name of the cluster for the other verbs.")
    ] = DEFAULT_NAME,
    detach: Annotated[
        bool, Option("--detach", help="Run in the background; returns when the cluster is ready.")
    ] = False,
    allow_unknown: AllowUnknown = False,
    metrics: Metrics = None,
    dashboard: Annotated[
        bool, Option("--dashboard", help="Show the cluster in a browser, and inject faults there.")
    ] = False,
    json: Json = False,
) -> None:
    """Start a cluster that runs until Ctrl-C or kaput down.

    Example: kaput up --detach && kaput fault inject kill --target 'broker 1'
    """
    from kaput.operate.registry import directory_of

    block = standing_block(
        scenario, brokers=brokers, controllers=controllers, racks=racks, mode=mode, kafka=kafka,
        network=network, security=security, config=config,
    )  # fmt: skip
    directory = directory_of(cluster)
    if detach:
        _show(_in_background(directory), json)
    else:
        with _control_room(dashboard) as shown:
            block["allow_unknown"] = allow_unknown
            _run_here(directory, scenario, block, kafka_home, metrics, json, shown)


def _run_here(
    directory: ClusterDirectory,
    scenario: str | None,
    cluster: dict[str, Any],
    kafka_home: Path | None,
    metrics: str | None,
    json: bool,
    shown: Sidecar | None,
) -> None:
    from kaput.cli.jars import distribution_for
    from kaput.cluster.network.reexec import enter
    from kaput.monitor.metrics_server import listen_address
    from kaput.operate import lab_metrics
    from kaput.operate.daemon import Daemon
    from kaput.operate.standing_cluster import StandingCluster
    from kaput.processes.signals import interrupts

    bound = None if metrics is None else lab_metrics.socket_at(listen_address(metrics, lab_metrics.OPTION))
    made = StandingCluster(scenario, folder=directory.folder, note=note, **cluster)
    # With a progress bar if jars have to be fetched.
    made.fetch(lambda version, java: distribution_for(version, java, kafka_home))
    if made.spec.network == "namespaces":
        # Started first, since browsers and Prometheus are outside the namespace.
        with ExitStack() as stack:
            if bound is not None:
                stack.enter_context(lab_metrics.kept_across_restart(bound))
            if shown is not None:
                stack.enter_context(shown.handed_over())
            enter(sys.argv[1:])
    with interrupts(), directory.locked():
        directory.create()
        try:
            with made:
                daemon = Daemon(directory, made, kafka_home)
                measured = nullcontext() if bound is None else lab_metrics.serving_lab(made, bound)
                with measured as url:
                    page = None if shown is None else shown.control_room(directory.name)
                    daemon.entry = replace(daemon.entry, metrics=url, dashboard=page)
                    with daemon.serving():
                        _show(daemon.entry, json)
                        sys.stdout.flush()
                        daemon.wait_until_down()
        finally:
            directory.remove()


def _control_room(wanted: bool) -> AbstractContextManager[Sidecar | None]:
    if not wanted:
        return nullcontext()
    from kaput.dashboard.opening import new_key
    from kaput.dashboard.sidecar import sidecar

    return sidecar(DEFAULT_RUNS, key=new_key())


def _in_background(directory: ClusterDirectory) -> ClusterEntry:
    """Runs the same command without --detach in its own session; returns when the cluster is ready.

    Raises LabError with the command's output if it ends instead.
    """
    directory.check_free()
    log = directory.log_of_start()
    try:
        daemon = _start_daemon(log)
    except OSError as error:
        raise LabError(f"cannot write {log} ({error.strerror}); set XDG_STATE_HOME") from None
    try:
        return _ready(directory, daemon, log)
    except BaseException:
        _end_daemon(daemon)  # Ctrl-C does not reach its session
        raise


def _ready(directory: ClusterDirectory, daemon: subprocess.Popen[bytes], log: Path) -> ClusterEntry:
    limit = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < limit:
        entry = directory.entry()
        if entry is not None and entry.pid == daemon.pid and entry.alive:
            log.replace(directory.log)
            return entry
        if (status := daemon.poll()) is not None:
            text = log.read_text(errors="replace").strip().removeprefix("kaput: ")
            log.unlink()
            raise (UsageError if status == UsageError.exit_status else LabError)(text)
        time.sleep(0.05)
    raise LabError(f"the cluster was not ready within {_START_TIMEOUT_S:.0f} s; see {log}")


def _end_daemon(daemon: subprocess.Popen[bytes]) -> None:
    from kaput.processes.signals import shielded

    with shielded():
        if daemon.poll() is None:
            daemon.terminate()
            try:
                daemon.wait(30.0)
            except subprocess.TimeoutExpired:
                daemon.kill()  # its guardian process ends the brokers


def _start_daemon(log: Path) -> subprocess.Popen[bytes]:
    """Starts the same command without --detach. It locks the name, so that only one of several succeeds."""
    arguments = [*(word for word in sys.argv[1:] if word not in ("--detach", "--json")), "--output", "table"]
    log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with log.open("wb") as output:
        return subprocess.Popen(
            # -P: do not import modules from the working directory.
            [sys.executable, "-P", "-m", "kaput", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _show(entry: ClusterEntry, json: bool) -> None:
    brokers = entry.bootstrap_servers.split(",")
    if json:
        document = {
            "cluster": entry.name,
            "bootstrap_servers": entry.bootstrap_servers,
            "brokers": list(range(1, len(brokers) + 1)),
            "folder": entry.folder,
            "client_properties": entry.client_properties,
            "metrics": entry.metrics,
            "dashboard": entry.dashboard,
        }
        print_json(document)
        return
    which = "" if entry.name == "lab" else f" --cluster {entry.name}"
    typer.echo(f"{entry.name}: {len(brokers)} brokers of Kafka {entry.kafka} at {entry.bootstrap_servers}")
    typer.echo(f"  logs: {entry.folder}/BROKER/server.log")
    for about, value in (
        ("client properties: --command-config", entry.client_properties),
        ("metrics:", entry.metrics),
        ("control room:", entry.dashboard),
    ):
        if value is not None:
            typer.echo(f"  {about} {value}")
    typer.echo(
        f"  kaput status{which}; kaput fault inject kill --target 'broker 1'{which}; kaput down{which}"
    )
