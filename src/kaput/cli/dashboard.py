"""`kaput dashboard`: serves a folder of runs to browsers on this machine."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from kaput.cli.verbs import Runs
from kaput.core import DEFAULT_RUNS
from kaput.errors import Interrupted

if TYPE_CHECKING:
    from socket import socket

    from kaput.dashboard.safe_files import Runs as Folder
    from kaput.dashboard.starter import Starter


def dashboard_command(
    runs: Runs = DEFAULT_RUNS,
    searches: Annotated[
        Path | None,
        Option(
            metavar="DIR", help="Directory with the search folders (default: searches, next to the runs)."
        ),
    ] = None,
    port: Annotated[
        int | None,
        Option(min=0, max=65535, metavar="PORT", help="Port on 127.0.0.1; 0: any free port (default: 8420)."),
    ] = None,
    read_only: Annotated[
        bool, Option("--read-only", help="Do not allow injecting or healing faults, or starting runs.")
    ] = False,
) -> None:
    """Show runs and running clusters in a browser.

    A cluster's control room injects and heals faults with a click. "New run" starts a run.

    Listens on 127.0.0.1 only. The address it prints contains a key that is required to change anything: keep
    it to yourself. Ctrl-C stops the dashboard.

    Example: kaput dashboard --runs runs --port 8420

    Example: kaput up --detach && kaput dashboard
    """
    with suppress(KeyboardInterrupt):  # Ctrl-C is the normal way to end it: no message
        _serve(runs, port, read_only, searches)
    raise typer.Exit(Interrupted.exit_status)


def _serve(runs: Path, port: int | None, read_only: bool, searches: Path | None) -> None:
    from kaput.dashboard.opening import PORT, bind, check_folder, new_key
    from kaput.operate.registry import running

    if runs == DEFAULT_RUNS and running():
        runs.mkdir(exist_ok=True)  # so that clusters can be viewed before the first run
    folder = check_folder(runs)
    bound = bind(PORT if port is None else port)
    key = None if read_only else new_key()
    with _starter(folder, read_only) as starter:
        _serve_on(folder, bound, key, starter, searches)


def _starter(folder: Folder, read_only: bool) -> AbstractContextManager[Starter | None]:
    if read_only:
        return nullcontext()
    from kaput.dashboard.starter import Starter

    return _ended_with(Starter(folder))


@contextmanager
def _ended_with(starter: Starter) -> Iterator[Starter]:
    """Ends started runs together with the dashboard."""
    try:
        yield starter
    finally:
        with closing(starter):
            if starter.started is not None and not starter.started.over:
                sys.stderr.write("kaput: interrupting the run started here; it cleans up first\n")


def _serve_on(
    folder: Folder, bound: socket, key: str | None, starter: Starter | None, searches: Path | None
) -> None:
    from kaput.dashboard.opening import HOST, lower_priority

    sys.stdout.write(f"http://{HOST}:{bound.getsockname()[1]}/{'' if key is None else f'#{key}'}\n")
    sys.stdout.flush()
    sys.stderr.write(f"kaput: serving {folder.root}; Ctrl-C stops it\n")
    lower_priority()
    from kaput.dashboard.app import server_of
    from kaput.search.summary import Searches

    shown = Searches.of_runs(folder.root) if searches is None else Searches(searches)
    server_of(folder, bound, shown, key, starter).run(sockets=[bound])
