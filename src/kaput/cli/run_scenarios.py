"""Runs scenarios in one Spark session, one after another or together on one cluster, and judges each, for
`kaput run`, `demo` and `doctor --prove`.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kaput.api.judging import Scratch, mirror_comparison, sealed_evidence
from kaput.cli.results import PlannedRun, Result, Series, judge_folder, keep_report, play
from kaput.cli.verbs import note, prefixed_note
from kaput.errors import DistributionError, Interrupted, KaputError, UsageError

if TYPE_CHECKING:
    from kaput.analysis.spark.engines import OwnSpark
    from kaput.analysis.spark.in_process import WithoutSpark
    from kaput.api.running import ExistingClusterOptions
    from kaput.cli.progress import RunProgress
    from kaput.cli.scenario_choice import Choice
    from kaput.dashboard.sidecar import Sidecar
    from kaput.evidence.findings import Findings
    from kaput.evidence.folder import RunFolder
    from kaput.java import Java
    from kaput.runner.run_cluster import ClusterProvider
    from kaput.scenario.model import Scenario
    from kaput.trials.trials import Trials


@contextmanager
def run_all(
    choices: list[Choice],
    seed: int | None,
    repeat: int,
    runs: Path,
    kafka_home: Path | None = None,
    dashboard: bool = False,
    pages: bool = True,
    *,
    existing: ExistingClusterOptions | None = None,
    metrics: str | None = None,
    allow_unknown: bool = False,
) -> Iterator[Series]:
    """Runs and judges each choice `repeat` times; all mistakes are reported before anything starts.

    `existing`: the user's own cluster to run on; `dashboard`: whether to serve one within the block;
    `metrics`: the address to serve Prometheus metrics of the runs at; `pages`: whether each run except the
    last gets its report.html before the next one starts; `allow_unknown`: as for prepare.

    Yields the results before Spark stops, so that they can be shown at once.
    """
    from kaput.analysis.spark.engines import engine_for, messages_to_judge
    from kaput.java import find_java
    from kaput.processes.ending import reap_orphans
    from kaput.processes.signals import interrupts
    from kaput.runner.folder_setup import check_runs

    java = find_java()
    check_runs(runs)
    with _sidecar(runs, dashboard, metrics) as shown:
        # Browsers are outside the namespace that kaput may enter below, so the dashboard must be too.
        with shown.handed_over() if shown else nullcontext():
            # kaput does not choose the network of an existing cluster.
            named = [(choice.name, choice.scenario) for choice in choices]
            prepare(named, java, kafka_home, own=existing is None, allow_unknown=allow_unknown)
        plans = _plans(choices, seed, repeat, runs, kafka_home)
        provider = partial(_provider, java, existing)
        most = max(messages_to_judge(choice.scenario) for choice in choices)
        with interrupts(), Scratch() as scratch, engine_for(most) as spark:
            reap_orphans()

            def between(result: Result) -> None:
                if pages:  # before the next run, so that users need not wait for all runs
                    keep_report(result.folder, result.findings)

            yield play(plans, lambda plan: run_one(plan, provider, spark, scratch, shown), between)


@contextmanager
def run_together(
    choices: list[Choice],
    seed: int | None,
    repeat: int,
    runs: Path,
    kafka_home: Path | None = None,
    *,
    allow_unknown: bool = False,
    progress: RunProgress | None = None,
) -> Iterator[Series]:
    """Runs all choices on one cluster at the same time, `repeat` times, and judges them. `progress`: shows
    them; without it, a line of their own does. Otherwise like run_all.

    Raises UsageError if their clusters or faults differ.
    """
    from kaput.cli.progress import RunProgress
    from kaput.java import find_java
    from kaput.runner.folder_setup import check_runs
    from kaput.trials.batch import why_apart
    from kaput.trials.trials import Trials

    java, first = find_java(), choices[0]
    check_runs(runs)
    for other in choices:
        if (why := why_apart(first.scenario, other.scenario)) is not None:
            raise UsageError(f"--together: {first.title} and {other.title} cannot share a cluster: {why}")
    prepare([(each.name, each.scenario) for each in choices], java, kafka_home, allow_unknown=allow_unknown)
    plans = _plans(choices, seed, repeat, runs, kafka_home)
    shown = progress or RunProgress(f"{len(choices)} together")
    with Trials(runs, progress=shown, together=len(choices), kafka_home=kafka_home) as trials:
        with shown:
            series = _played_together(plans, trials)
        yield series


def _played_together(plans: Sequence[PlannedRun], trials: Trials) -> Series:
    """The results, in the order of the plans."""
    from kaput.trials.batch import Trial

    series, judged = Series(), {}
    wanted = [Trial(plan.name, plan.scenario, plan.seed, plan.varied) for plan in plans]
    try:
        judged = {id(one.trial): one for one in trials.run(wanted)}
    except (Exception, Interrupted) as error:  # noqa: BLE001 - ends the program, after the results are shown
        series.ended = error
    for number, (plan, trial) in enumerate(zip(plans, wanted, strict=True), 1):
        if (one := judged.get(id(trial))) is None:
            continue
        if one.folder is not None and one.findings is not None:
            series.results.append(Result(one.folder, one.findings, plan.variant))
        else:
            prefixed_note(f"run {number} of {len(plans)} failed: {one.error}")
            series.failed.append(plan)
    return series


def _sidecar(
    runs: Path, dashboard: bool, metrics: str | None
) -> AbstractContextManager[Sidecar] | AbstractContextManager[None]:
    """A dashboard and metrics during the runs, if requested. Raises LabError, UsageError."""
    if not dashboard and metrics is None:
        return nullcontext()
    from kaput.dashboard.sidecar import METRICS, sidecar
    from kaput.monitor.metrics_server import listen_address

    address = None if metrics is None else listen_address(metrics, METRICS)
    return sidecar(runs, dashboard=dashboard, metrics=address)


def _plans(
    choices: list[Choice], seed: int | None, repeat: int, runs: Path, kafka_home: Path | None
) -> list[PlannedRun]:
    """All choices once, then all again, so that changes on the machine affect all of them."""
    first_seed = random.SystemRandom().randrange(2**31) if seed is None else seed
    every = [(number, index) for number in range(repeat) for index in range(len(choices))]
    plans = []
    for at, (number, index) in enumerate(every, 1):
        choice = choices[index]
        again = "" if repeat == 1 else f" ({number + 1} of {repeat})"
        label = choice.name if len(every) == 1 else f"{choice.name} {at}/{len(every)}"
        plans.append(
            PlannedRun(
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


def prepare(
    named: Sequence[tuple[str, Scenario]],
    java: Java,
    kafka_home: Path | None = None,
    *,
    own: bool = True,
    allow_unknown: bool = False,
) -> None:
    """Fetches everything that these named scenarios need, checks their settings, and enters their network.

    `own`: whether kaput starts their clusters, and so chooses their network and version; `allow_unknown`:
    whether settings may have names that Kafka and its Java clients do not know.

    Raises UsageError, DistributionError, NamespacesError before anything starts.
    """
    from kaput.cli.jars import distribution_for, more_for
    from kaput.cluster.network.reexec import inside
    from kaput.runner.machine import check_memory
    from kaput.runner.setting_check import check_settings

    scenarios = [scenario for _, scenario in named]
    _fetch_others(scenarios, java)
    _install_clients(named)
    jars = (lambda version: distribution_for(version, java, kafka_home)) if own else None
    check_settings(scenarios, java, jars, allow_unknown=allow_unknown, with_mirrors=more_for)
    if own:
        warnings = check_memory(named)
        for warning in () if inside() else warnings:  # before the restart they were given
            note(warning)
        _enter_network(scenarios, java, kafka_home)


def _fetch_others(scenarios: list[Scenario], java: Java) -> None:
    """Fetches the jars of Java clients with other versions than the cluster's and of upgrades, and stores'
    servers, before anything starts. Raises DistributionError.
    """
    from kaput.cli.jars import distribution_for
    from kaput.scenario.stores import SERVER_KINDS
    from kaput.stores.running import mongodb_program, search_engine_home

    wanted = {
        version
        for scenario in scenarios
        for version in {*scenario.java_versions(), *scenario.upgrades()} - {*scenario.kafka_versions()}
    }
    for version in sorted(wanted):
        distribution_for(version, java, None)
    kinds = {store.kind for scenario in scenarios for store in scenario.stores.values() if not store.where}
    for kind in sorted(kinds & set(SERVER_KINDS)):
        mongodb_program() if kind == "mongodb" else search_engine_home(kind, java)


def _install_clients(named: Iterable[tuple[str, Scenario]]) -> None:
    """Installs versions of confluent-kafka that scenarios name. Raises UsageError, DistributionError."""
    from kaput.workload.librdkafka.versions import packages

    for name, scenario in named:
        for place, version in scenario.librdkafka_versions().items():
            try:
                packages(version, note)
            except KaputError as error:
                raise type(error)(f"{name}: {place}: {error}") from None


def _enter_network(scenarios: list[Scenario], java: Java, kafka_home: Path | None) -> None:
    """Re-executes kaput in a network namespace if need be; jars come first: no other network is there."""
    from kaput.cluster.network.reexec import enter
    from kaput.faults.catalogue import kernel_needs

    if not any(scenario.cluster.network == "namespaces" for scenario in scenarios):
        return
    software = {(*one.kafka_versions(), *one.upgrades(), bool(one.mirrors)): one for one in scenarios}
    for scenario in software.values():
        # A version that cannot be fetched fails only its own runs.
        with suppress(DistributionError, UsageError) if len(software) > 1 else nullcontext():
            _own_cluster(scenario, java, kafka_home)
    faults = {step.fault for scenario in scenarios for step in scenario.faults}
    needs = {need for fault in faults for need in kernel_needs(fault)}
    clusters = [cluster for one in scenarios for cluster in one.all_clusters.values()]
    needs |= {cluster.disk_fs for cluster in clusters if cluster.disk_mb is not None}
    if any(store.disk_mb is not None for one in scenarios for store in one.stores.values()):
        needs.add("tmpfs")
    enter(sys.argv[1:], needs)


def _provider(
    java: Java, existing: ExistingClusterOptions | None, plan: PlannedRun
) -> tuple[ClusterProvider, Scenario]:
    """The cluster for a run, and its scenario as resolved there. Raises LabError, UsageError."""
    if existing is not None:
        return existing.provider_for(plan.scenario)
    return _own_cluster(plan.scenario, java, plan.kafka_home), plan.scenario


def _own_cluster(scenario: Scenario, java: Java, kafka_home: Path | None) -> ClusterProvider:
    """Kafka of all versions that the scenario needs, and MirrorMaker; what is missing is fetched.

    Raises DistributionError, UsageError.
    """
    from kaput.cli.jars import distribution_for, more_for
    from kaput.cluster.mirrors.node import JARS as MIRRORS
    from kaput.runner.run_cluster import own_clusters

    return own_clusters(
        scenario,
        java,
        kafka_home,
        resolved=lambda version: distribution_for(version, java, None),
        with_mirrors=lambda distribution: more_for(distribution, MIRRORS, java),
    )


_BEFORE_LOAD = ("", "provision", "warm up")  # phases of a run


def without_evidence(folder: RunFolder) -> str:
    """A sentence about the folder of a run that was interrupted before its load. It stays: a page may show
    it, and logs tell what took long.
    """
    from kaput.runner.cleanup import NAME, read_journal

    if (folder.path / NAME).exists() and not read_journal(folder.path).nothing:
        return f"nothing was sent yet; kaput undo {folder.path} removes what was made in your cluster"
    return f"nothing was sent yet; {folder.path} has only logs"


def run_one(
    plan: PlannedRun,
    provider_of: Callable[[PlannedRun], tuple[ClusterProvider, Scenario]],
    spark: OwnSpark | WithoutSpark,
    scratch: Scratch,
    shown: Sidecar | None = None,
) -> tuple[RunFolder, Findings]:
    """Plays and judges one run. If it fails, a message names its evidence. `shown`: shows it live."""
    from kaput.analysis.spark.in_process import load_analysis
    from kaput.cli.progress import RunProgress
    from kaput.runner.experiment import Experiment

    provider, scenario = provider_of(plan)
    with RunProgress(plan.label) as progress:
        experiment = Experiment(
            plan.name,
            scenario,
            plan.seed,
            plan.runs,
            provider,
            progress,
            varied=plan.varied,
            on_load_over=load_analysis,
            compare=mirror_comparison(spark.session, scratch),
        )
        if shown is not None and shown.port:
            progress.note(f"live at {shown.live(experiment.folder.path.name)}")
        if shown is not None and shown.metrics:
            progress.note(f"metrics at {shown.metrics}")
        try:
            folder = experiment.run()
        except (KaputError, OSError, Interrupted) as error:
            early = isinstance(error, Interrupted) and experiment.manifest.phase in _BEFORE_LOAD
            if experiment.folder.path.exists():
                progress.note(
                    without_evidence(experiment.folder)
                    if early
                    else f"the evidence so far is in {experiment.folder.path} (kaput analyze judges it)"
                )
            raise
        return folder, judge_folder(sealed_evidence(folder, scratch), spark.session, scratch)
