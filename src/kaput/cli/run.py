"""`kaput run`: runs scenarios on a real cluster, and judges them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from kaput.cli import completion
from kaput.cli.alerts import rules_of, score_results
from kaput.cli.metrics import Metrics
from kaput.cli.options import (
    AllowUnknown,
    BrokerConfig,
    Brokers,
    Columns,
    CommandConfig,
    Controllers,
    FindingsJson,
    Kafka,
    KafkaHome,
    Mode,
    Network,
    Page,
    Racks,
    Reports,
    Security,
    TableOptions,
    as_overrides,
    cluster_block,
    columns_of,
    naming,
)
from kaput.cli.results import Baseline, ToleranceOption, read_baselines, show_series
from kaput.cli.settings import read_settings
from kaput.cli.verbs import Runs
from kaput.core import DEFAULT_RUNS
from kaput.errors import UsageError

if TYPE_CHECKING:
    from kaput.api.running import ExistingClusterOptions
    from kaput.cli.scenario_choice import Choice


Scenarios = Annotated[
    list[str] | None,
    Argument(
        metavar="SCENARIO",
        autocompletion=completion.scenarios,
        help="Built-in names (see kaput scenarios) or YAML files.",
    ),
]
Tags = Annotated[list[str] | None, Option(metavar="TAG", help="Run all built-in scenarios with this tag.")]
Overrides = Annotated[
    list[str] | None,
    Option(
        "--set", metavar="KEY=VALUE", help="Change the scenario: workload.producers.0.acks=1. Repeatable."
    ),
]
Varied = Annotated[
    list[str] | None,
    Option(
        metavar="KEY=V1,V2,...",
        help="Run once for each value; several --vary run every combination. Keys as for --set.",
    ),
]
Seed = Annotated[int | None, Option(metavar="N", help="Repeat the random choices of an earlier run.")]
Repeat = Annotated[
    int,
    Option(
        min=1,
        metavar="N",
        help="Run each scenario this many times; shows mean, minimum, maximum, and from 5 runs on "
        "95 % intervals.",
    ),
]
OwnCluster = Annotated[
    str | None,
    Option(
        metavar="HOST:PORT,...",
        help="Run on your own cluster instead of starting one (docs/EXISTING_CLUSTER.md).",
    ),
]
Alerts = Annotated[
    Path | None,
    Option(metavar="FILE", help="Score this file's alert rules on each run, as kaput alerts score does."),
]
UseExistingTopic = Annotated[
    bool,
    Option(
        "--use-existing-topic", help="With --bootstrap-servers: also write to topics kaput did not create."
    ),
]

Together = Annotated[
    bool,
    Option(
        "--together",
        help="Run the scenarios on one cluster at the same time: their clusters and faults must be equal.",
    ),
]
Dashboard = Annotated[bool, Option("--dashboard", help="Show the runs live in a browser.")]


def run_command(
    scenario: Scenarios = None,
    *,
    tag: Tags = None,
    set_: Overrides = None,
    vary: Varied = None,
    seed: Seed = None,
    repeat: Repeat = 1,
    together: Together = False,
    brokers: Brokers = None,
    controllers: Controllers = None,
    racks: Racks = None,
    mode: Mode = None,
    kafka: Kafka = None,
    network: Network = None,
    security: Security = None,
    config: BrokerConfig = None,
    kafka_home: KafkaHome = None,
    bootstrap_servers: OwnCluster = None,
    command_config: CommandConfig = None,
    use_existing_topic: UseExistingTopic = False,
    allow_unknown: AllowUnknown = False,
    baseline: Baseline = None,
    tolerance: ToleranceOption = None,
    columns: Columns = None,
    reports: Reports = False,
    alerts: Alerts = None,
    runs: Runs = DEFAULT_RUNS,
    json: FindingsJson = False,
    dashboard: Dashboard = False,
    metrics: Metrics = None,
    page: Page = True,
) -> None:
    """Run scenarios, judge them and write reports.

    Several runs are summarized in one table with the paths of their reports. The cluster options override the
    scenario's cluster.

    Example: kaput run leader-kill-acks-all --brokers 5 --repeat 3

    Example: kaput run leader-kill-acks-1 --vary workload.producers.0.acks=0,1,all

    Example: kaput run acks-1.yaml acks-all.yaml --together
    """
    from kaput.cli.run_scenarios import run_all, run_together

    baselines = read_baselines(baseline, tolerance)
    score = None if alerts is None else partial(score_results, rules_of(alerts), to_stderr=json)
    cluster = cluster_block(
        brokers=brokers, controllers=controllers, racks=racks, mode=mode,
        kafka=kafka, network=network, security=security, config=config,
    )  # fmt: skip
    existing = _existing(bootstrap_servers, command_config, use_existing_topic, cluster, kafka_home)
    choices = _choices(scenario or [], tag or [], set_ or [], vary or [], cluster, existing is not None)
    baselines.check(choice.name for choice in choices)
    several = repeat > 1 or len(choices) > 1
    varied = [key for choice in choices for key in choice.varied]
    printed = TableOptions(columns_of(columns, several, varied), reports)
    if together:
        _check_together(bootstrap_servers=existing, dashboard=dashboard, metrics=metrics)
        playing = run_together(choices, seed, repeat, runs, kafka_home, allow_unknown=allow_unknown)
    else:
        playing = run_all(
            choices, seed, repeat, runs, kafka_home, dashboard, page,
            existing=existing, metrics=metrics, allow_unknown=allow_unknown,
        )  # fmt: skip
    with playing as series:
        show_series(series, json, several, page, baselines, printed, score)


def _check_together(**others: object) -> None:
    """Raises UsageError if an option was given that runs on a shared cluster cannot have."""
    for name, value in others.items():
        if value:
            raise UsageError(f"--together cannot be combined with --{name.replace('_', '-')}")


def _choices(
    scenarios: list[str],
    tags: list[str],
    overrides: list[str],
    varied: list[str],
    cluster: Mapping[str, object],
    existing: bool,
) -> list[Choice]:
    """The scenarios to run, with the options for their cluster. Raises UsageError with every mistake."""
    from kaput.cli.scenario_choice import choose

    options, settings = as_overrides(cluster), read_settings()
    with naming(options):
        return choose(scenarios, tags, [*overrides, *options], varied, existing=existing, settings=settings)


def _existing(
    servers: str | None,
    command_config: Path | None,
    use_topics: bool,
    cluster: Mapping[str, object],
    kafka_home: Path | None,
) -> ExistingClusterOptions | None:
    """The user's own cluster to run on; None if kaput starts one. Raises UsageError."""
    from kaput.api.running import ExistingClusterOptions

    if servers is None:
        if use_topics or command_config is not None:
            option = "--use-existing-topic" if use_topics else "--command-config"
            raise UsageError(f"{option} requires --bootstrap-servers")
        return None
    if cluster or kafka_home is not None:
        option = next(iter(as_overrides(cluster).values())).split()[0] if cluster else "--kafka-home"
        raise UsageError(f"{option} is for clusters that kaput starts; it cannot change {servers}")
    return ExistingClusterOptions(servers, command_config, use_topics)
