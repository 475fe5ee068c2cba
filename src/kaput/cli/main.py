"""`kaput`: the verbs put together. How it ends: ending.py; where it prints to: streams.py."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from kaput.cli import (
    analyze,
    bench,
    dashboard,
    demo,
    doctor,
    existing,
    export,
    fault,
    inside,
    peek,
    reassign,
    replay,
    report,
    run,
    scenarios,
    sequence,
    standing,
    tool,
    up,
)
from kaput.cli.ending import VERDICTS, Verbs, status_of
from kaput.cli.streams import Streams
from kaput.errors import LabError

# Options behind the first argument are the other program's.
PASSED_ON = {"allow_interspersed_args": False, "ignore_unknown_options": True}

app = typer.Typer(
    name="kaput",
    cls=Verbs,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Break a real Apache Kafka cluster on purpose, and account for every message.\n\n"
    "Example: kaput run leader-kill-lagging-acks-1",
)
app.command("run")(run.run_command)
app.command("cleanup")(existing.cleanup_command)
app.command("analyze")(analyze.analyze_command)
app.command("report")(report.report_command)
app.command("export")(export.export_command)
app.command("dashboard")(dashboard.dashboard_command)
app.command("demo")(demo.demo_command)
app.command("up")(up.up_command)
app.command("status")(standing.status_command)
app.add_typer(fault.app, name="fault")
app.command("grow")(standing.grow_command)
app.command("shell", context_settings=PASSED_ON)(standing.shell_command)
app.command("down")(standing.down_command)
app.command("doctor")(doctor.doctor_command)
app.command("reassign")(reassign.reassign_command)
app.command("tool", context_settings=PASSED_ON)(tool.tool_command)
app.command("replay")(replay.replay_command)
app.command("peek")(peek.peek_command)
app.command("inside", context_settings=PASSED_ON)(inside.inside_command)
app.add_typer(scenarios.app, name="scenarios")
app.add_typer(sequence.app, name="sequence")
app.add_typer(bench.app, name="bench")


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
    """The entry point. Exit status: docs in errors.py and the README."""
    streams = Streams()
    status = status_of(_run)
    if failure := streams.finish():
        sys.stderr.write(f"kaput: stdout could not be written to ({failure}): the output is incomplete\n")
        status = LabError.exit_status if status in VERDICTS else status
    sys.exit(status)


def _run() -> object:
    from kaput.processes.signals import interrupts
    from kaput.processes.skip_pandas import skip_pandas

    skip_pandas()
    with interrupts():
        # color: in a pipe click deletes the escape sequences of data, which the streams show escaped.
        return app(standalone_mode=False, color=True)
