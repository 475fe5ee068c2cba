"""`kaput dashboard`: serves a folder of runs to browsers of this machine."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from kaput.cli.run import DEFAULT_RUNS


def dashboard_command(
    runs: Annotated[Path, typer.Option(help="The folder that run folders are in.")] = DEFAULT_RUNS,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="The port on 127.0.0.1; 0 is any that is free.  [default: 8420]"),
    ] = None,
) -> None:
    """Show a folder of runs in a browser: the list, reports, runs in progress, replays, two side by side.

    It is served on 127.0.0.1 alone and changes nothing. Ctrl-C ends it.

    Example: kaput dashboard --runs runs --port 8420
    """
    from kaput.errors import Interrupted

    with suppress(KeyboardInterrupt):  # how this ends is no news: nothing is said
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
