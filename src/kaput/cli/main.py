"""`kaput`: the verbs put together. How it ends: ending.py; where it prints to: streams.py."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from kaput.cli import analyze, bench, dashboard, demo, report, run, scenarios
from kaput.cli.ending import VERDICTS, Verbs, status_of
from kaput.cli.streams import Streams
from kaput.errors import LabError

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
app.command("analyze")(analyze.analyze_command)
app.command("report")(report.report_command)
app.command("dashboard")(dashboard.dashboard_command)
app.command("demo")(demo.demo_command)
app.add_typer(scenarios.app, name="scenarios")
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

    with interrupts():
        return app(standalone_mode=False)
