"""`kaput dashboard`: serves a folder of runs to browsers on this machine."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from kaput.cli.verbs import Runs
from kaput.core import DEFAULT_RUNS


def dashboard_command(
    runs: Runs = DEFAULT_RUNS,
    port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65535, metavar="PORT", help="Port on 127.0.0.1, 0 for any free one (default: 8420)."
        ),
    ] = None,
) -> None:
    """Show runs in a browser: reports, live runs, comparisons.

    It listens on 127.0.0.1 only and changes nothing. Ctrl-C ends it.

    Example: kaput dashboard --runs runs --port 8420
    """
    from kaput.errors import Interrupted

    with suppress(KeyboardInterrupt):  # the normal way to end it: no message
        _serve(runs, port)
    raise typer.Exit(Interrupted.exit_status)


def _serve(runs: Path, port: int | None) -> None:
    from kaput.dashboard.opening import HOST, PORT, bind, check_folder, step_back

    folder = check_folder(runs)
    bound = bind(PORT if port is None else port)
    sys.stdout.write(f"http://{HOST}:{bound.getsockname()[1]}/\n")
    sys.stdout.flush()
    sys.stderr.write(f"kaput: serving {folder.root}; Ctrl-C ends it\n")
    step_back()
    from kaput.dashboard.serving import server_of

    server_of(folder, bound).run(sockets=[bound])
