"""`kaput`: the verbs put together, and every exception turned into a sentence and an exit status."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from kaput.cli import analyze, bench, demo, report, run, scenarios
from kaput.errors import AccountingError, KaputError

app = typer.Typer(
    name="kaput",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Break a real Apache Kafka cluster on purpose, and account for every message.\n\n"
    "Example: kaput run leader-kill-lagging-acks-1",
)
app.command("run")(run.run_command)
app.command("analyze")(analyze.analyze_command)
app.command("report")(report.report_command)
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
    try:
        app()
    except KaputError as error:
        _say(f"kaput: {error}")
        sys.exit(error.exit_status)
    except AccountingError as error:
        _say(f"kaput: the analysis is broken, its numbers are worth nothing: {error}")
        sys.exit(70)
    except BrokenPipeError:
        # The reader of our output went away (`| head`): nothing is wrong.
        sys.stderr.close()
        sys.exit(0)


def _say(text: str) -> None:
    sys.stderr.write(text.rstrip() + "\n")
