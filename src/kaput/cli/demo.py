"""`kaput demo`: the pair that shows what kaput is for, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kaput.cli.run import DEFAULT_RUNS

PAIR = ["leader-kill-lagging-acks-1", "leader-kill-lagging-acks-all"]


def demo_command(
    runs: Annotated[Path, typer.Option(help="Where run folders are made.")] = DEFAULT_RUNS,
    json: Annotated[bool, typer.Option("--json", help="Print both findings as a list on stdout.")] = False,
) -> None:
    """Kill a leader whose followers lag, once with acks=1 and once with acks=all.

    Example: kaput demo
    """
    from kaput.cli.choosing import choose
    from kaput.cli.run import run_all
    from kaput.cli.showing import show_series

    with run_all(choose(PAIR, [], [], []), seed=None, repeat=1, runs=runs) as series:
        show_series(series, json, as_list=True)
