"""`kaput run`: plays a scenario on a real cluster and judges it."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from kaput.analysis.spark.background import Background
    from kaput.cli.scratch import Scratch
    from kaput.evidence.findings import Findings
    from kaput.evidence.folder import RunFolder
    from kaput.java import Java
    from kaput.scenario.model import Scenario

DEFAULT_RUNS = Path("runs")


def run_command(
    scenario: Annotated[str, typer.Argument(help="A built-in name (kaput scenarios) or a YAML file.")],
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change the scenario: workload.producers.0.acks=1"),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Repeat a run's random choices.")] = None,
    repeat: Annotated[
        int,
        typer.Option(min=1, help="How many times to run; the mean comes with its 95 % confidence interval."),
    ] = 1,
    network: Annotated[str | None, typer.Option(help="loopback, or namespaces (Linux).")] = None,
    runs: Annotated[Path, typer.Option(help="Where run folders are made.")] = DEFAULT_RUNS,
    kafka_home: Annotated[
        Path | None, typer.Option(help="Use this Kafka installation's jars instead of the locked ones.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print findings.json on stdout.")] = False,
) -> None:
    """Run SCENARIO on a real cluster, judge it, and write the report.

    Example: kaput run leader-kill-acks-all --set workload.producers.0.rate=1000 --repeat 3
    """
    from kaput.cli.showing import show

    overrides = [*(set_ or []), *([f"cluster.network={network}"] if network else [])]
    with run_all([scenario], overrides, seed, repeat, runs, kafka_home) as results:
        show(results, json, repeated=repeat > 1)


@contextmanager
def run_all(
    scenarios: list[str],
    overrides: list[str],
    seed: int | None,
    repeat: int,
    runs: Path,
    kafka_home: Path | None = None,
) -> Iterator[list[tuple[RunFolder, Findings]]]:
    """Runs and judges each scenario `repeat` times; every mistake is found before anything starts.

    The results are there before Spark has gone: nobody needs to wait for that.
    """
    from kaput.analysis.spark.background import Background
    from kaput.cli.scratch import Scratch
    from kaput.java import find_java
    from kaput.processes.reaper import reap_orphans
    from kaput.processes.signals import interrupts
    from kaput.run.opening import check_runs
    from kaput.scenario.loader import load

    loaded = [load(scenario, overrides) for scenario in scenarios]
    java = find_java()
    check_runs(runs)
    _enter_network([scenario for _, scenario in loaded], java, kafka_home)
    results = []
    with interrupts(), Scratch() as scratch, Background(rehearse=True) as spark:
        reap_orphans()
        first_seed = random.SystemRandom().randrange(2**31) if seed is None else seed
        for name, scenario in loaded:
            for number in range(repeat):
                title = name if repeat == 1 else f"{name} {number + 1}/{repeat}"
                plan = Plan(title, name, scenario, first_seed + number, runs, kafka_home)
                results.append(run_one(plan, java, spark, scratch))
        yield results


def _enter_network(scenarios: list[Scenario], java: Java, kafka_home: Path | None) -> None:
    """Where a scenario needs network namespaces, kaput starts over in one: then everything is inside.

    The jars come first, because no other network is reached from there.
    """
    from kaput.cli.jars import distribution_for
    from kaput.cluster.network.entering import enter
    from kaput.faults.catalogue import CATALOGUE

    if not any(scenario.cluster.network == "namespaces" for scenario in scenarios):
        return
    for version in {scenario.cluster.kafka for scenario in scenarios}:
        distribution_for(version, java, kafka_home)
    faults = {step.fault for scenario in scenarios for step in scenario.faults}
    needs = {need for fault in faults for need in CATALOGUE[fault].needs}
    if any(scenario.cluster.disk_mb for scenario in scenarios):
        needs.add("tmpfs")
    enter(sys.argv[1:], needs)


@dataclass(frozen=True)
class Plan:
    """One run to make: what the progress calls it, the scenario, its seed, and where it goes."""

    title: str
    name: str
    scenario: Scenario
    seed: int
    runs: Path
    kafka_home: Path | None


def run_one(plan: Plan, java: Java, spark: Background, scratch: Scratch) -> tuple[RunFolder, Findings]:
    """One run, judged. A run that fails half-way says where its evidence is."""
    from kaput.cli.jars import distribution_for
    from kaput.cli.judging import judge_folder
    from kaput.cli.progress import RunProgress
    from kaput.cli.ready import ready
    from kaput.errors import KaputError
    from kaput.run.experiment import Experiment

    distribution = distribution_for(plan.scenario.cluster.kafka, java, plan.kafka_home)
    with RunProgress(plan.title) as progress:
        experiment = Experiment(
            plan.name,
            plan.scenario,
            plan.seed,
            plan.runs,
            distribution,
            java,
            progress,
            on_load=spark.prepare,
            on_last_heal=spark.begin,
        )
        try:
            folder = experiment.run()
        except KaputError:
            progress.note(f"what was recorded is in {experiment.folder.path} (kaput analyze judges it)")
            raise
        return folder, judge_folder(ready(folder, scratch), spark.session, scratch)
