"""`kaput search`: draws experiments from a space until one shows a symptom, and shrinks that one."""

from __future__ import annotations

import random
import sys
from contextlib import closing
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from kaput.cli import completion
from kaput.cli.options import milliseconds
from kaput.cli.verbs import print_json
from kaput.errors import UsageError
from kaput.printable import printable

if TYPE_CHECKING:
    from kaput.search.space import Space
    from kaput.search.store import SearchStore, StoredExperiment

ScenarioArgument = Annotated[
    str | None,
    Argument(
        metavar="SCENARIO",
        autocompletion=completion.scenarios,
        help="Built-in name or YAML file to search, in its default space.",
    ),
]
SpaceOption = Annotated[
    str | None, Option(metavar="FILE", help="Space to search: a file or a built-in name (docs/SEARCH.md).")
]
Budget = Annotated[str, Option(metavar="TIME", help="How long to search, including shrinking.")]
Seed = Annotated[int | None, Option(metavar="N", help="Repeat the random choices of an earlier search.")]
Finds = Annotated[int | None, Option(min=1, metavar="N", help="Stop after this many finds.")]
Control = Annotated[
    bool, Option("--control", help="Use the space's control settings, with which nothing should be found.")
]
Uniform = Annotated[
    bool, Option("--uniform", help="Draw all choices with equal probability, without learning.")
]
Resume = Annotated[Path | None, Option(metavar="DIR", help="Continue a search that ended or was killed.")]
Show = Annotated[Path | None, Option(metavar="DIR", help="Print what a search has found so far and exit.")]
PrintSpace = Annotated[bool, Option("--print-space", help="Print the space as YAML and exit.")]
AtOnce = Annotated[
    int,
    Option(min=1, max=16, metavar="N", help="Experiments at the same time, on one cluster or side by side."),
]
Scale = Annotated[
    float,
    Option(
        min=0.05, max=1, metavar="X", help="Multiply all times by this, except in the final confirmation."
    ),
]
Searches = Annotated[Path, Option(metavar="DIR", help="Directory with the search folders.")]
Json = Annotated[
    bool, Option("--json", help="Print a line of JSON for each experiment, each find and the search.")
]


def search_command(
    scenario: ScenarioArgument = None,
    *,
    space: SpaceOption = None,
    budget: Budget = "10m",
    seed: Seed = None,
    finds: Finds = None,
    control: Control = False,
    uniform: Uniform = False,
    at_once: AtOnce = 4,
    scale: Scale = 1.0,
    resume: Resume = None,
    show: Show = None,
    print_space: PrintSpace = False,
    searches: Searches = Path("searches"),
    json: Json = False,
) -> None:
    """Search a space of experiments for lost messages.

    Each find is confirmed, shrunk, and written as a scenario with a report. Exit status: 1 if something was
    found, 3 if something could not be confirmed within the budget, otherwise 0.

    Example: kaput search leader-kill-acks-all --budget 1h

    Example: kaput search --space last-replica-standing --budget 30m --finds 1
    """
    from kaput.search.loading import derived, load
    from kaput.search.store import SearchSettings, create_search, open_search

    budget_s = milliseconds("--budget", budget) / 1000
    if sum(each is not None for each in (scenario, space, resume, show)) != 1:
        raise UsageError("give exactly one of: a scenario, --space FILE, --resume DIR, --show DIR")
    folder = resume or show
    if folder is None:
        wanted = load(space) if space is not None else derived(scenario or "")
        if print_space:
            sys.stdout.write(wanted.to_yaml())
            return
        drawn = random.SystemRandom().randrange(2**31) if seed is None else seed
        settings = SearchSettings(wanted.name, drawn, control, uniform, at_once, scale)
        _enter_network(wanted.with_control() if control else wanted)
        folder = create_search(searches, wanted, settings)
    wanted, store = open_search(folder)
    with closing(store):
        if show is not None:
            _print(wanted, store, json)
            return
        _enter_network(wanted)
        raise typer.Exit(_search(wanted, store, budget_s, finds, json))


def _enter_network(space: Space) -> None:
    """Enters a network namespace if any experiment may need one."""
    from kaput.cli.run_scenarios import prepare
    from kaput.java import find_java

    prepare([(space.name, variant) for variant in space.variants()], find_java())


def _search(space: Space, store: SearchStore, budget_s: float, finds: int | None, json: bool) -> int:
    from kaput.processes.signals import interrupts
    from kaput.search.experiments import Experiments
    from kaput.search.publishing import publish
    from kaput.search.searching import Search
    from kaput.trials.trials import Trials

    sys.stderr.write(
        f"kaput search --resume {store.folder} continues this search, --show prints its results\n"
    )
    tell = partial(_print_experiment, space, store, budget_s, json)
    try:
        runs, together = store.folder / "runs", store.settings.together
        with interrupts(), Trials(runs, together=together, side_by_side=True) as trials:
            experiments = Experiments(space, store, trials.run, budget_s, tell)
            Search(experiments, wanted=finds, publish=partial(publish, space, store)).run()
    finally:  # also when interrupted: the results so far are shown
        _print(space, store, json)
    return 1 if store.finds("found") else 3 if store.finds("candidate") else 0


def _print(space: Space, store: SearchStore, json: bool) -> None:
    from kaput.search.summary import find_numbers, lines, numbers

    if json:
        for find in store.finds("found"):
            _line("find", find_numbers(store, find))
        _line("search", numbers(space, store))
        return
    sys.stdout.writelines(printable(line) + "\n" for line in lines(space, store))


def _line(kind: str, of: dict[str, Any]) -> None:

    print_json({kind: of})
    sys.stdout.flush()


def _print_experiment(
    space: Space, store: SearchStore, budget_s: float, json: bool, experiment: StoredExperiment
) -> None:
    """Prints a line on stderr for each experiment, and with --json one on stdout."""
    from kaput.search.summary import minutes, numbers

    of = numbers(space, store)
    shown = ", ".join(experiment.symptoms) or experiment.error or experiment.verdict or ""
    line = (
        f"{experiment.id} {experiment.purpose} ({experiment.seconds:.0f} s): {shown}; "
        f"{of['per_hour']:g} an hour, {of['choices_tried']} of {of['choices']} choices, "
        f"{of['signatures']} signatures, {of['found']} found, "
        f"{minutes(max(0.0, budget_s - of['spent_s']))} left"
    )
    sys.stderr.write(printable(line) + "\n")
    if json:
        _line("experiment", asdict(replace(experiment, choices=replace(experiment.choices, arms=()))))
