"""The program `kaput` with all its commands. Exit statuses: exit_status.py; output: streams.py."""

from __future__ import annotations

import logging
import sys
from typing import Annotated

import typer

from kaput.cli import (
    alerts,
    analyze,
    bench,
    cache,
    compare,
    dashboard,
    demo,
    doctor,
    export,
    failover,
    fault,
    inside,
    keep,
    matrix,
    metrics,
    peek,
    reassign,
    regress,
    replay,
    report,
    run,
    running_clusters,
    scenarios,
    search,
    sequence,
    tool,
    undo,
    up,
    watch,
)
from kaput.cli.exit_status import VERDICTS, RootGroup, status_of
from kaput.cli.streams import Streams
from kaput.cli.verbs import GROUPS, Verb
from kaput.errors import LabError

# Options after the first argument are for the other program.
PASSED_ON = {"allow_interspersed_args": False, "ignore_unknown_options": True}
EXPERIMENTS, CLUSTERS, CLIENTS, EVIDENCE = GROUPS

app = typer.Typer(
    name="kaput",
    cls=RootGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Break a real Apache Kafka cluster on purpose, and account for every message.\n\n"
    "Example: kaput run leader-kill-lagging-acks-1",
)
for group, name, command, settings in (
    (EXPERIMENTS, "run", run.run_command, None),
    (EXPERIMENTS, "matrix", matrix.matrix_command, None),
    (EXPERIMENTS, "regress", regress.regress_command, None),
    (EXPERIMENTS, "demo", demo.demo_command, None),
    (EXPERIMENTS, "search", search.search_command, None),
    (EXPERIMENTS, "scenarios", scenarios.app, None),
    (EXPERIMENTS, "undo", undo.undo_command, None),
    (EXPERIMENTS, "cache", cache.app, None),
    (CLUSTERS, "up", up.up_command, None),
    (CLUSTERS, "status", running_clusters.status_command, None),
    (CLUSTERS, "fault", fault.app, None),
    (CLUSTERS, "grow", running_clusters.grow_command, None),
    (CLUSTERS, "shell", running_clusters.shell_command, PASSED_ON),
    (CLUSTERS, "down", running_clusters.down_command, None),
    (CLUSTERS, "watch", watch.watch_command, None),
    (CLUSTERS, "compare", compare.compare_command, None),
    (CLUSTERS, "doctor", doctor.doctor_command, None),
    (CLUSTERS, "metrics", metrics.metrics_command, None),
    (CLUSTERS, "reassign", reassign.reassign_command, None),
    (CLUSTERS, "failover", failover.failover_command, None),
    (CLUSTERS, "alerts", alerts.app, None),
    (CLIENTS, "sequence", sequence.app, None),
    (CLIENTS, "replay", replay.replay_command, None),
    (CLIENTS, "keep", keep.app, None),
    (CLIENTS, "peek", peek.peek_command, None),
    (CLIENTS, "tool", tool.tool_command, PASSED_ON),
    (CLIENTS, "inside", inside.inside_command, PASSED_ON),
    (EVIDENCE, "analyze", analyze.analyze_command, None),
    (EVIDENCE, "report", report.report_command, None),
    (EVIDENCE, "export", export.export_command, None),
    (EVIDENCE, "dashboard", dashboard.dashboard_command, None),
    (EVIDENCE, "bench", bench.app, None),
):
    if isinstance(command, typer.Typer):
        app.add_typer(command, name=name, rich_help_panel=group)
    else:
        app.command(name, cls=Verb, rich_help_panel=group, context_settings=settings)(command)


def _version(wanted: bool) -> None:
    if wanted:
        from kaput import __version__

        typer.echo(f"kaput {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options of the program itself."""


def main() -> None:
    """The entry point. Exit statuses: errors.py and the README."""
    streams = Streams()
    status = status_of(_run)
    if failure := streams.finish():
        sys.stderr.write(f"kaput: cannot write to stdout ({failure}): the output is incomplete\n")
        status = LabError.exit_status if status in VERDICTS else status
    sys.exit(status)


def _run() -> object:
    from kaput.processes.signals import interrupts
    from kaput.processes.skip_pandas import skip_pandas

    skip_pandas()
    # Only py4j logs to the root logger: a traceback whenever Ctrl-C ends its JVM during a call.
    logging.getLogger().addFilter(lambda _record: False)
    with interrupts():
        # color: otherwise click deletes escape sequences in data; streams.py escapes them.
        return app(standalone_mode=False, color=True)
