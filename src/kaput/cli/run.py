"""`kaput run`: plays scenarios on a real cluster, one after the other, and judges them."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kaput.cli.which import CommandConfig

if TYPE_CHECKING:
    from kaput.analysis.spark.background import Background
    from kaput.cli.choosing import Choice
    from kaput.cli.existing import Existing
    from kaput.cli.scratch import Scratch
    from kaput.cli.series import Plan, Result, Series
    from kaput.dashboard.beside import Beside
    from kaput.evidence.findings import Findings
    from kaput.evidence.folder import RunFolder
    from kaput.java import Java
    from kaput.run.run_cluster import ClusterProvider
    from kaput.scenario.model import Scenario

DEFAULT_RUNS = Path("runs")


def run_command(
    scenario: Annotated[
        list[str] | None,
        typer.Argument(help="Built-in names (kaput scenarios) or YAML files.", show_default=False),
    ] = None,
    *,
    tag: Annotated[
        list[str] | None, typer.Option(metavar="TAG", help="Run every built-in scenario with this tag.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change the scenario: workload.producers.0.acks=1"),
    ] = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=V1,V2,...",
            help="Run once for each value; several make every combination. A path as for --set.",
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Repeat a run's random choices.")] = None,
    repeat: Annotated[
        int,
        typer.Option(
            min=1, help="How many times to run each; the mean comes with its 95 % confidence interval."
        ),
    ] = 1,
    network: Annotated[str | None, typer.Option(help="loopback, or namespaces (Linux).")] = None,
    runs: Annotated[Path, typer.Option(help="Where run folders are made.")] = DEFAULT_RUNS,
    kafka_home: Annotated[
        Path | None, typer.Option(help="Use this Kafka installation's jars instead of the locked ones.")
    ] = None,
    bootstrap_servers: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT,...", help="Run it on this cluster, and start none (docs/EXISTING_CLUSTER.md)."
        ),
    ] = None,
    command_config: CommandConfig = None,
    use_existing_topic: Annotated[
        bool,
        typer.Option("--use-existing-topic", help="There: write to topics that kaput has not made, too."),
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print findings.json on stdout; of several runs a list.")
    ] = False,
    dashboard: Annotated[
        bool,
        typer.Option("--dashboard", help="Show the runs in a browser while they last."),
    ] = False,
    page: Annotated[
        bool,
        typer.Option("--page/--no-page", help="Write report.html after the verdict."),
    ] = True,
) -> None:
    """Run scenarios on a real cluster, judge them, and write the reports. Several end with one table.

    Example: kaput run leader-kill-acks-all --set workload.producers.0.rate=1000 --repeat 3

    Example: kaput run leader-kill-acks-1 --vary workload.producers.0.acks=0,1,all --repeat 3
    """
    from kaput.cli.choosing import choose
    from kaput.cli.showing import show_series

    existing = _existing(bootstrap_servers, command_config, use_existing_topic, network, kafka_home)
    overrides = [*(set_ or []), *([f"cluster.network={network}"] if network else [])]
    choices = choose(scenario or [], tag or [], overrides, vary or [], existing=existing is not None)
    with run_all(choices, seed, repeat, runs, kafka_home, dashboard, page, existing) as series:
        show_series(series, json, as_list=repeat > 1 or len(choices) > 1, pages=page)


def _existing(
    servers: str | None,
    command_config: Path | None,
    use_topics: bool,
    network: str | None,
    kafka_home: Path | None,
) -> Existing | None:
    """The cluster to run on; None for one of kaput's own. Raises UsageError."""
    from kaput.cli.existing import Existing
    from kaput.errors import UsageError

    if servers is None:
        if use_topics or command_config is not None:
            option = "--use-existing-topic" if use_topics else "--command-config"
            raise UsageError(f"{option} goes with --bootstrap-servers: kaput's own clusters are new")
        return None
    if network is not None or kafka_home is not None:
        option = "--network" if network is not None else "--kafka-home"
        raise UsageError(f"{option} is for clusters that kaput starts, and --bootstrap-servers is for others")
    return Existing(servers, command_config, use_topics)


@contextmanager
def run_all(
    choices: list[Choice],
    seed: int | None,
    repeat: int,
    runs: Path,
    kafka_home: Path | None = None,
    dashboard: bool = False,
    pages: bool = True,
    existing: Existing | None = None,
) -> Iterator[Series]:
    """Runs and judges each choice `repeat` times; every mistake is found before anything starts.

    `existing`: the cluster to run on, if it is not kaput's. `dashboard`: whether there is one for as long as
    the block lasts. `pages`: whether the results that others
    follow get their report.html.

    The results are there before Spark has gone: nobody needs to wait for that.
    """
    from kaput.analysis.spark.background import Background
    from kaput.cli.scratch import Scratch
    from kaput.cli.series import play
    from kaput.java import find_java
    from kaput.processes.reaper import reap_orphans
    from kaput.processes.signals import interrupts
    from kaput.run.folder_setup import check_runs

    java = find_java()
    check_runs(runs)
    with _beside(runs) if dashboard else nullcontext() as shown:
        # Browsers are outside of the namespace that kaput may start over in, so the dashboard is, too.
        with shown.handed_over() if shown else nullcontext():
            _fetch_others([choice.scenario for choice in choices], java)
            # Of an existing cluster the network is what it is.
            own = [choice.scenario for choice in choices] if existing is None else []
            _enter_network(own, java, kafka_home)
        first_seed = random.SystemRandom().randrange(2**31) if seed is None else seed
        plans = _plans(choices, first_seed, repeat, runs, kafka_home)
        provider = partial(_provider, java, existing)
        with interrupts(), Scratch() as scratch, Background(rehearse=True) as spark:
            reap_orphans()
            between = _keep if pages else lambda _result: None
            yield play(plans, lambda plan: run_one(plan, provider, spark, scratch, shown), between=between)


def _beside(runs: Path) -> AbstractContextManager[Beside]:
    """A dashboard for as long as the runs last. Raises LabError."""
    from kaput.dashboard.beside import beside

    return beside(runs)


def _keep(result: Result) -> None:
    """The page of a run that others follow: who looks at them while they go on need not wait for the last."""
    from kaput.cli.judging import keep_report

    keep_report(result.folder, result.findings)


def _plans(
    choices: list[Choice], first_seed: int, repeat: int, runs: Path, kafka_home: Path | None
) -> list[Plan]:
    """Every choice once, then every choice again: whatever changes meanwhile does so for all of them."""
    from kaput.cli.series import Plan

    every = [(number, index) for number in range(repeat) for index in range(len(choices))]
    plans = []
    for at, (number, index) in enumerate(every, 1):
        choice = choices[index]
        again = "" if repeat == 1 else f" ({number + 1} of {repeat})"
        label = choice.name if len(every) == 1 else f"{choice.name} {at}/{len(every)}"
        plans.append(
            Plan(
                choice.title + again,
                label,
                choice.name,
                choice.scenario,
                choice.varied,
                str(index),
                first_seed + number,
                runs,
                kafka_home,
            )
        )
    return plans


def _fetch_others(scenarios: list[Scenario], java: Java) -> None:
    """The jars of Java clients of other versions than the cluster's, and of what it is upgraded to, before
    anything starts. Raises DistributionError.
    """
    from kaput.cli.jars import distribution_for

    wanted = {
        version
        for scenario in scenarios
        for version in {*scenario.java_versions(), *scenario.upgrades()} - {scenario.cluster.kafka}
    }
    for version in sorted(wanted):
        distribution_for(version, java, None)


def _enter_network(scenarios: list[Scenario], java: Java, kafka_home: Path | None) -> None:
    """Where a scenario needs network namespaces, kaput starts over in one: then everything is inside.

    The jars come first, because no other network is reached from there.
    """
    from kaput.cli.jars import distribution_for
    from kaput.cluster.network.entering import enter
    from kaput.errors import DistributionError
    from kaput.faults.catalogue import CATALOGUE

    if not any(scenario.cluster.network == "namespaces" for scenario in scenarios):
        return
    versions = {scenario.cluster.kafka for scenario in scenarios}
    for version in versions:
        # Of several, one that cannot be had fails its own runs alone.
        with suppress(DistributionError) if len(versions) > 1 else nullcontext():
            distribution_for(version, java, kafka_home)
    faults = {step.fault for scenario in scenarios for step in scenario.faults}
    needs = {need for fault in faults if fault in CATALOGUE for need in CATALOGUE[fault].needs}
    if any(scenario.cluster.disk_mb for scenario in scenarios):
        needs.add("tmpfs")
    enter(sys.argv[1:], needs)


def _provider(java: Java, existing: Existing | None, plan: Plan) -> tuple[ClusterProvider, Scenario]:
    """Where a run takes place, and its scenario as it reads there. Raises LabError, UsageError."""
    from kaput.cli.jars import distribution_for
    from kaput.run.own_cluster import OwnClusterProvider

    if existing is not None:
        return existing.ground_for(plan.scenario)
    cluster = distribution_for(plan.scenario.cluster.kafka, java, plan.kafka_home)
    successors = [distribution_for(version, java, None) for version in plan.scenario.upgrades()]
    return OwnClusterProvider(cluster, java, successors), plan.scenario


def run_one(
    plan: Plan,
    ground_of: Callable[[Plan], tuple[ClusterProvider, Scenario]],
    spark: Background,
    scratch: Scratch,
    dashboard: Beside | None = None,
) -> tuple[RunFolder, Findings]:
    """One run, judged. One that fails half-way says where its evidence is. `dashboard`: where it is shown."""
    from kaput.cli.judging import judge_folder
    from kaput.cli.progress import RunProgress
    from kaput.cli.ready import ready
    from kaput.errors import KaputError
    from kaput.run.experiment import Experiment

    provider, scenario = ground_of(plan)
    with RunProgress(plan.label) as progress:
        experiment = Experiment(
            plan.name,
            scenario,
            plan.seed,
            plan.runs,
            provider,
            progress,
            varied=plan.varied,
            on_load=spark.prepare,
            on_last_heal=spark.begin,
        )
        if dashboard is not None:
            progress.note(f"live at {dashboard.live(experiment.folder.path.name)}")
        try:
            folder = experiment.run()
        except KaputError:
            progress.note(f"what was recorded is in {experiment.folder.path} (kaput analyze judges it)")
            raise
        return folder, judge_folder(ready(folder, scratch), spark.session, scratch)
