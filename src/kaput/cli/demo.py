"""`kaput demo`: two runs side by side that show what kaput does."""

from __future__ import annotations

from typing import Annotated

import typer

from kaput.cli.verbs import Runs
from kaput.core import DEFAULT_RUNS

PAIR = ["leader-kill-lagging-acks-1", "leader-kill-lagging-acks-all"]


def demo_command(
    runs: Runs = DEFAULT_RUNS,
    json: Annotated[bool, typer.Option("--json", help="Print both findings as a list on stdout.")] = False,
) -> None:
    """Kill a leader with lagging followers: acks=1 and acks=all.

    With acks=1, acknowledged messages are lost; with acks=all, none are.

    Example: kaput demo
    """
    from kaput.cli.results import show_series
    from kaput.cli.run_scenarios import run_all
    from kaput.cli.scenario_choice import choose

    with run_all(choose(PAIR, [], [], []), seed=None, repeat=1, runs=runs) as series:
        show_series(series, json, as_list=True)
