"""`kaput search`: draws experiments from a space until one loses a message, and shrinks that one."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kaput.cli.durations import milliseconds

if TYPE_CHECKING:
    from kaput.search.space import Space
    from kaput.search.store import Experiment, Store

SPACE_FILE = "space.yaml"

ScenarioArgument = Annotated[
    str | None,
    typer.Argument(metavar="SCENARIO", help="A built-in name or a YAML file, searched in a default space."),
]
SpaceOption = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="The space: a file, or one of kaput's own (docs/SEARCH.md)."),
]
Budget = Annotated[str, typer.Option(metavar="T", help="How long to search, shrinking included.")]
Seed = Annotated[
    int | None, typer.Option(metavar="N", help="Repeat the random choices of an earlier search.")
]
Finds = Annotated[int | None, typer.Option(min=1, metavar="N", help="End when so much is found.")]
Control = Annotated[
    bool, typer.Option("--control", help="With the space's control settings: nothing must be found.")
]
Uniform = Annotated[bool, typer.Option("--uniform", help="Learn nothing: every choice is equally likely.")]
Resume = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Go on with a search that was ended or killed.")
]
Show = Annotated[Path | None, typer.Option(metavar="DIR", help="Print what a search knows, and end.")]
PrintSpace = Annotated[bool, typer.Option("--print-space", help="Print the space as YAML, and end.")]
Searches = Annotated[Path, typer.Option(metavar="DIR", help="Directory with the folders of searches.")]
Json = Annotated[
    bool, typer.Option("--json", help="Print a line of JSON for each experiment, each find, and the search.")
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
    resume: Resume = None,
    show: Show = None,
    print_space: PrintSpace = False,
    searches: Searches = Path("searches"),
    json: Json = False,
) -> None:
    """Search a space of experiments for lost messages.

    Each find is confirmed, shrunk, and written as a scenario with its report. Exit status: 1 if something was
    found, 3 if something could not be confirmed within the budget, else 0.

    Example: kaput search leader-kill-acks-all --budget 1h

    Example: kaput search --space last-replica-standing --budget 30m --finds 1
    """
    from kaput.errors import UsageError

    budget_s = milliseconds("--budget", budget) / 1000
    given = [each for each in (scenario, space, resume, show) if each is not None]
    if len(given) != 1:
        raise UsageError("name one: a scenario, --space FILE, --resume DIR or --show DIR")
    if show is not None:
        _show(show, json)
        return
    wanted = _space(scenario, space) if resume is None else _resumed(resume)
    if print_space:
        sys.stdout.write(wanted.to_yaml())
        return
    wanted = wanted.controlled() if control else wanted
    _enter_network(wanted)
    folder = resume or _new_folder(searches, wanted, control=control, uniform=uniform, seed=seed)
    raise typer.Exit(_search(wanted, folder, budget_s, finds, json))


def _space(scenario: str | None, space: str | None) -> Space:
    from kaput.search.derived import derived
    from kaput.search.loading import load

    return load(space) if space is not None else derived(scenario or "")


def _resumed(folder: Path) -> Space:
    """The space of a search, as it was begun. Raises UsageError."""
    from kaput.errors import UsageError
    from kaput.scenario.source import read
    from kaput.search.loading import from_text
    from kaput.search.store import Store

    if not (folder / SPACE_FILE).is_file():
        raise UsageError(f"{folder}: not the folder of a search (it has no {SPACE_FILE})")
    with closing(Store(folder)) as store:
        name, control = store.get("name", folder.name), store.get("control") == "1"
    space = from_text(name, str(folder / SPACE_FILE), read(folder / SPACE_FILE))
    return space.controlled() if control else space


def _new_folder(searches: Path, space: Space, *, control: bool, uniform: bool, seed: int | None) -> Path:
    from kaput.evidence.folder import create_directory, replace_text
    from kaput.search.store import Store

    folder = searches / f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{space.name}"
    create_directory(folder)
    replace_text(folder / SPACE_FILE, space.to_yaml())
    with closing(Store(folder)) as store:
        store.put("name", space.name)
        store.put("control", "1" if control else "")
        store.put("uniform", "1" if uniform else "")
        store.put("seed", str(random.SystemRandom().randrange(2**31) if seed is None else seed))
    return folder


def _enter_network(space: Space) -> None:
    """Where an experiment may need a network of kaput's own, all are played in one."""
    from kaput.cli.run_scenarios import enter_network, fetch_others
    from kaput.java import find_java

    variants, java = list(space.variants()), find_java()
    fetch_others(variants, java)
    enter_network(variants, java, None)


def _search(space: Space, folder: Path, budget_s: float, finds: int | None, json: bool) -> int:
    from kaput.processes.signals import interrupts
    from kaput.search.experiments import Experiments
    from kaput.search.publishing import publish
    from kaput.search.searching import Search
    from kaput.search.store import Store
    from kaput.trials.trials import Trials

    with interrupts(), closing(Store(folder)) as store:
        sys.stderr.write(
            f"kaput search --resume {folder} goes on with it; --show {folder} tells what is known\n"
        )
        tell = _teller(space, store, budget_s, json)
        try:
            with Trials(folder / "runs") as trials:
                search = Search(
                    Experiments(space, store, trials.run, budget_s, tell),
                    int(store.get("seed")),
                    uniform=store.get("uniform") == "1",
                    wanted=finds,
                    publish=partial(publish, space, store),
                )
                search.run()
        finally:  # also when interrupted: what is known is worth a look
            _print(space, store, json)
        return 1 if store.finds("found") else 3 if store.finds("candidate") else 0


def _show(folder: Path, json: bool) -> None:
    from kaput.search.store import Store

    space = _resumed(folder)
    with closing(Store(folder)) as store:
        _print(space, store, json)


def _print(space: Space, store: Store, json: bool) -> None:
    from kaput.printable import printable
    from kaput.search.summary import find_numbers, lines, numbers

    if json:
        for find in store.finds("found"):
            _line("find", find_numbers(store, find))
        _line("search", numbers(space, store))
        return
    sys.stdout.writelines(printable(line) + "\n" for line in lines(space, store))


def _line(kind: str, of: dict[str, object]) -> None:
    from json import dumps

    sys.stdout.write(dumps({kind: of}) + "\n")
    sys.stdout.flush()


def _teller(space: Space, store: Store, budget_s: float, json: bool) -> Callable[[Experiment], None]:
    """What hears of each experiment: a line on stderr, and with --json one on stdout."""
    from kaput.printable import printable
    from kaput.search.summary import minutes, numbers

    def tell(experiment: Experiment) -> None:
        of = numbers(space, store)
        shown = ", ".join(experiment.symptoms) or experiment.error or experiment.verdict or ""
        sys.stderr.write(
            printable(
                f"{experiment.id} {experiment.purpose} ({experiment.seconds:.0f} s): {shown}; "
                f"{of['per_hour']:g} an hour, {of['choices_tried']} of {of['choices']} choices, "
                f"{of['signatures']} signatures, {of['found']} found, "
                f"{minutes(max(0.0, budget_s - of['spent_s']))} left"
            )
            + "\n"
        )
        if json:
            known = asdict(replace(experiment, choices=replace(experiment.choices, arms=())))
            _line("experiment", known)

    return tell
