"""`kaput.run` plays a scenario on a real cluster and judges it; `kaput.analyze` judges recorded evidence."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from kaput.api.runs import Findings, Run
from kaput.errors import KaputError, UsageError
from kaput.evidence.folder import RunFolder
from kaput.runner.progress import NotesOnly
from kaput.scenario.model import Scenario
from kaput.scenario.source import parse
from kaput.scenario.vocabulary import LedgerRows

if TYPE_CHECKING:
    from kaput.api.judging import Scratch
    from kaput.cluster.distribution import Distribution
    from kaput.faults.engine import FaultState
    from kaput.java import Java
    from kaput.runner.run_cluster import ClusterProvider


def run(
    scenario: str | Path | Mapping[str, Any],
    set: Mapping[str, Any] | None = None,
    *,
    seed: int | None = None,
    runs: str | Path = "runs",
    kafka_home: str | Path | None = None,
    bootstrap_servers: str | None = None,
    command_config: str | Path | None = None,
    use_existing_topics: bool = False,
    allow_unknown: bool = False,
    page: bool = True,
    note: Callable[[str], None] = lambda _text: None,
) -> Run:
    """Plays a scenario on a new cluster, or on yours, and judges it, as `kaput run` does.

    `scenario`: a built-in name, a YAML file, or its content as a dict. `set`: changes by path, such as
    `{"workload.producers.0.acks": 1}`. `bootstrap_servers`: your own cluster, with the client properties file
    `command_config`; `use_existing_topics`: whether its topics may be written to.
    `allow_unknown`: whether settings may have names that Kafka and its Java clients do not know. `page`:
    whether to write report.html. `note`: called with phases and faults as they begin.

    A violated promise does not raise an exception: see `Run.findings.verdict`. Raises UsageError for a
    mistake in the arguments, LabError if there is nothing to judge, Interrupted.
    """
    from kaput.api.judging import Scratch
    from kaput.cluster.network.reexec import check_inside
    from kaput.java import find_java
    from kaput.processes.ending import reap_orphans
    from kaput.processes.signals import interrupts
    from kaput.runner.folder_setup import check_runs
    from kaput.runner.machine import check_memory
    from kaput.runner.setting_check import check_settings

    existing = _existing(bootstrap_servers, command_config, use_existing_topics, kafka_home)
    name, resolved = _resolve(scenario, set or {}, existing is not None)
    java = find_java()
    check_runs(Path(runs))
    if existing is None and resolved.cluster.network == "namespaces":
        check_inside()
    drawn = random.SystemRandom().randrange(2**31) if seed is None else seed
    with _environment_restored(), interrupts(), Scratch() as scratch:
        reap_orphans()
        jars = _jars(java, kafka_home, note) if existing is None else None
        check_settings([resolved], java, jars, allow_unknown=allow_unknown)
        if existing is None:
            for warning in check_memory([(name, resolved)]):
                note(warning)
            provider = own_provider(resolved, java, kafka_home, note)
        else:
            provider, resolved = existing.provider_for(resolved)
        folder = _record(name, resolved, drawn, Path(runs), provider, _Notes(note), scratch)
        _judge(folder, None, scratch, "stretches", page)
    return Run(folder)


def analyze(
    folder: str | Path, spark: Any = None, *, ledger: LedgerRows = "stretches", page: bool = True
) -> Findings:
    """Judges a run folder, from any writer, and writes findings.json, as `kaput analyze` does.

    `spark`: the SparkSession to use; None: the program's active session, else none for a run of fewer than
    100 million messages, else a new one that later calls share. `ledger`: what the ledger's rows are. `page`:
    whether to write report.html.

    Raises EvidenceError with the file at fault.
    """
    from kaput.api.judging import Scratch
    from kaput.processes.signals import interrupts

    with _environment_restored(), interrupts(), Scratch() as scratch:
        return _judge(Path(folder), spark, scratch, ledger, page)


def _judge(path: Path, spark: Any, scratch: Any, ledger: LedgerRows, page: bool) -> Findings:
    from kaput.analysis.spark.engines import context_of
    from kaput.api.judging import judge, keep_report, sealed_evidence

    evidence = sealed_evidence(RunFolder(path), scratch)
    judged = judge(evidence, lambda: context_of(spark, evidence.most_rows), scratch, ledger)
    if page:
        keep_report(evidence.folder, judged)
    return Findings.of(judged, path)


def _resolve(
    scenario: str | Path | Mapping[str, Any], changes: Mapping[str, Any], existing: bool = False
) -> tuple[str, Scenario]:
    """The checked scenario with changes, and its name. JSON is YAML, so values are passed as JSON."""
    from kaput.scenario.loader import find, resolve

    if isinstance(scenario, Mapping):
        name, source = "scenario", parse("scenario", yaml.safe_dump(dict(scenario), sort_keys=False))
    else:
        name, source = find(str(scenario))
    overrides = [f"{key}={json.dumps(value)}" for key, value in changes.items()]
    return name, resolve(source, overrides, existing=existing)


def _existing(
    servers: str | None, config: str | Path | None, use_topics: bool, kafka_home: str | Path | None
) -> ExistingClusterOptions | None:
    """The user's own cluster; None for a new one. Raises UsageError."""
    if servers is None and (config is not None or use_topics):
        option = "use_existing_topics" if use_topics else "command_config"
        raise UsageError(f"{option} goes with bootstrap_servers: kaput's own clusters are new")
    if servers is not None and kafka_home is not None:
        raise UsageError("kafka_home is for clusters that kaput starts; leave out bootstrap_servers, or it")
    if servers is None:
        return None
    return ExistingClusterOptions(servers, Path(config) if config is not None else None, use_topics)


def _jars(
    java: Java, kafka_home: str | Path | None, note: Callable[[str], None]
) -> Callable[[str], Distribution]:
    """What finds the jars of a version."""
    from kaput.cluster.distribution import from_home, resolve

    home = Path(kafka_home) if kafka_home else None
    return lambda version: resolve(version, java, note=note) if home is None else from_home(home)


def own_provider(
    scenario: Scenario, java: Java, kafka_home: str | Path | None, note: Callable[[str], None]
) -> ClusterProvider:
    """The provider of a new cluster. Fetches all jars and packages that the run needs first."""
    from kaput.cluster.distribution import with_additional_jars
    from kaput.cluster.mirrors.node import JARS as MIRRORS
    from kaput.runner.run_cluster import own_clusters
    from kaput.workload.librdkafka.versions import packages

    resolved = _jars(java, None, note)

    def with_mirrors(distribution: Distribution) -> Distribution:
        return with_additional_jars(distribution, MIRRORS, java, note=note)

    for version in sorted(scenario.java_versions() - {*scenario.kafka_versions()}):
        resolved(version)
    for client in sorted({*scenario.librdkafka_versions().values()}):
        packages(client, note)
    return own_clusters(scenario, java, Path(kafka_home) if kafka_home else None, resolved, with_mirrors)


def _record(
    name: str,
    scenario: Scenario,
    seed: int,
    runs: Path,
    provider: ClusterProvider,
    progress: _Notes,
    scratch: Scratch,
) -> Path:
    """Plays a run and returns its folder. Raises LabError with a note on where the evidence is."""
    from kaput.analysis.spark.engines import engine_of_program, messages_to_judge
    from kaput.analysis.spark.in_process import load_analysis
    from kaput.api.judging import mirror_comparison
    from kaput.runner.experiment import Experiment

    spark = engine_of_program(messages_to_judge(scenario))
    experiment = Experiment(
        name,
        scenario,
        seed,
        runs,
        provider,
        progress,
        on_load_over=load_analysis,
        compare=mirror_comparison(spark.session, scratch),
    )
    try:
        return experiment.run().path
    except KaputError as error:
        error.add_note(f"what was recorded is in {experiment.folder.path} (kaput.analyze judges it)")
        raise


class _Notes(NotesOnly):
    """A run's progress as lines of text."""

    def phase(self, name: str) -> None:
        self.note(name)

    def fault(self, step: str, what: str, state: FaultState) -> None:
        self.note(f"{state}: {what}")


@contextmanager
def _environment_restored() -> Iterator[None]:
    """Restores Owner's marker in the environment: what the program starts later is its own."""
    from kaput.processes.records import MARKER

    before = os.environ.get(MARKER)
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(MARKER, None)
        else:
            os.environ[MARKER] = before


@dataclass(frozen=True)
class ExistingClusterOptions:
    """The user's cluster. `command_config`: client properties; `use_topics`: may existing ones be used?"""

    servers: str
    command_config: Path | None = None
    use_topics: bool = False

    def provider_for(self, scenario: Scenario) -> tuple[ClusterProvider, Scenario]:
        """The provider of this cluster for a run, and the scenario with the cluster's facts filled in.

        Raises UsageError, and LabError if the cluster does not respond.
        """
        from kaput.cluster.access import OPEN, Access
        from kaput.cluster.admin import Admin
        from kaput.cluster.admin.client import check_access
        from kaput.cluster.existing_cluster import ExistingCluster
        from kaput.runner.cluster_facts import check_unused, collect_facts, with_cluster_facts
        from kaput.runner.existing_cluster import ExistingClusters

        access = Access.read(self.command_config) if self.command_config else OPEN
        check_access(self.servers, access)
        cluster = ExistingCluster(self.servers, access)
        cluster.refresh()
        with Admin(cluster) as admin:
            topics = admin.ids(topic.name for topic in scenario.topics)
            kept = check_unused(scenario, topics, admin.every_group(), self.use_topics)
            facts = collect_facts(cluster, admin)
            true = with_cluster_facts(scenario, facts, kept)
        return ExistingClusters(cluster, facts, kept), true
