"""`kaput undo`: cleans up after a killed run in the user's own cluster."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from kaput.cli import completion
from kaput.cli.options import Json
from kaput.cli.verbs import print_json
from kaput.errors import LabError


def undo_command(
    run_dir: Annotated[
        Path,
        Argument(
            metavar="RUN_DIR",
            autocompletion=completion.run_folders,
            help="Folder of a run with --bootstrap-servers.",
        ),
    ],
    *,
    forget: Annotated[
        list[str] | None,
        Option(metavar="STEP", help="Do not heal this step, such as 1-command: it is healed. Repeatable."),
    ] = None,
    json: Json = False,
) -> int:
    """Remove what a killed run left in your own cluster.

    Heals its faults and deletes only the topics and groups that the run created. A fault is healed when prove
    or its broker says so. Exit status 4 if something is left.

    Example: kaput undo runs/20261122T171500-my-scenario-0b6f2a
    """
    from kaput.evidence.recording import hold_alone, left_behind
    from kaput.runner.cleanup import clean_up_folder

    # A run that is still recording needs its topics.
    with hold_alone(run_dir, "kaput undo") if left_behind(run_dir) else nullcontext():
        left = clean_up_folder(run_dir, forget or [])
    if json:
        print_json({"run_dir": str(run_dir), "left": left})
    for text in left:
        typer.echo(text, err=True)
    if not (left or json):
        typer.echo("nothing is left of the run")
    return LabError.exit_status if left else 0
