"""Options that several verbs share: the existing cluster of a command, and the confirmation before it is
changed; durations; tables of several runs (--columns, --reports); clusters that kaput starts (`kaput run`,
`kaput up`).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from kaput.cli import completion
from kaput.cli.settings import cluster_defaults, read_settings
from kaput.cli.verbs import Verbosity, pairs
from kaput.errors import UsageError

if TYPE_CHECKING:
    from kaput.cluster.access import Access
    from kaput.cluster.kafka_cluster import ClusterAddress
    from kaput.operate.registry import ClusterEntry


Servers = Annotated[
    str | None, Option(metavar="HOST:PORT,...", help="Your own cluster, instead of one started by kaput up.")
]
ClusterName = Annotated[
    str | None,
    Option(
        "--cluster",
        metavar="NAME",
        envvar="KAPUT_CLUSTER",
        autocompletion=completion.clusters,
        help="Cluster to use (default: the running one).",
    ),
]
ClusterScenario = Annotated[
    str | None,
    Argument(
        metavar="SCENARIO",
        autocompletion=completion.scenarios,
        help="Use the cluster and topics of this built-in name or YAML file.",
    ),
]
CommandConfig = Annotated[
    Path | None,
    Option(metavar="FILE", help="Client properties file with the security settings (Java format)."),
]
RunDir = Annotated[
    Path, Argument(metavar="RUN_DIR", autocompletion=completion.run_folders, help="Run folder.")
]
JudgedRuns = Annotated[
    list[Path], Argument(metavar="RUN_DIR", autocompletion=completion.run_folders, help="Judged run folders.")
]
Page = Annotated[bool, Option("--page/--no-page", help="Write report.html after the verdict.")]
FindingsJson = Annotated[
    bool, Option("--json", help="Print findings.json on stdout; for several runs, a list.")
]
Json = Annotated[bool, Option("--json", help="Print one JSON document on stdout.")]


def servers_of(bootstrap_servers: str | None, cluster: str | None) -> str:
    """The bootstrap servers: as given, or those of the running cluster. Raises UsageError."""
    return bootstrap_servers if bootstrap_servers is not None else entry_of(cluster).bootstrap_servers


def entry_of(cluster: str | None) -> ClusterEntry:
    """The running cluster with that name; without a name the only one. Raises UsageError."""
    from kaput.operate.registry import DEFAULT_NAME, directory_of, find, running

    if cluster is not None:
        return find(cluster)
    entries = running()
    if len(entries) == 1:
        return entries[0]
    if entries:
        names = ", ".join(entry.name for entry in entries)
        raise UsageError(f"{len(entries)} clusters are running ({names}); choose one with --cluster NAME")
    left = directory_of(DEFAULT_NAME).entry() is not None
    died = f" ({DEFAULT_NAME}: its daemon died; kaput down cleans up)" if left else ""
    raise UsageError(
        f"no cluster is running{died}; kaput up --detach starts one "
        "(some verbs take --bootstrap-servers instead)"
    )


def config_of(bootstrap_servers: str | None, cluster: str | None, command_config: Path | None) -> Path | None:
    """The client properties file: given, or of the running cluster; None if none. Raises UsageError."""
    if command_config is not None or bootstrap_servers is not None:
        return command_config
    known = entry_of(cluster).client_properties
    return None if known is None else Path(known)


def access_of(bootstrap_servers: str | None, cluster: str | None, command_config: Path | None) -> Access:
    """The security settings in a client properties file. Raises UsageError."""
    from kaput.cluster.access import Access

    path = config_of(bootstrap_servers, cluster, command_config)
    return Access.of(path)


def standing_cluster(text: str, config: Path | None) -> ClusterAddress:
    """HOST:PORT,... or a cluster of kaput up; `config`: its client properties file. Raises UsageError."""
    from kaput.cluster.kafka_cluster import ClusterAddress
    from kaput.cluster.wire import addresses

    servers = text if ":" in text else None
    if servers is not None:
        try:
            addresses(servers)
        except UsageError:
            raise UsageError(f"{text!r} is neither HOST:PORT,... nor a cluster name") from None
    address = ClusterAddress(text, servers_of(servers, text), config_of(servers, text, config))
    address.access.librdkafka()  # reports unusable settings before anything is done
    return address


def cluster_and_mirror(
    source: str, source_config: Path | None, target: str, target_config: Path | None
) -> tuple[ClusterAddress, ClusterAddress]:
    """Both as `standing_cluster` has them. Raises UsageError, also if they are one cluster."""
    clusters = standing_cluster(source, source_config), standing_cluster(target, target_config)
    if set(clusters[0].servers.split(",")) & set(clusters[1].servers.split(",")):
        raise UsageError(f"{source} and {target} are the same cluster; name the cluster and its mirror")
    return clusters


def write_text(option: str, path: Path, text: str) -> None:
    """Writes what an option names: a file atomically, a link or a device in place. Raises UsageError."""
    from kaput.evidence.folder import replace_text

    try:
        if path.is_symlink() or (path.exists() and not path.is_file()):
            path.write_text(text, encoding="utf-8")
        else:
            replace_text(path, text)
    except OSError as error:
        raise UsageError(f"{option} {path}: cannot be written ({error.strerror})") from None


def confirmed(question: str, yes: bool) -> bool:
    """Whether the user confirms, or --yes was given. Raises UsageError without a terminal."""
    if yes:
        return True
    if not sys.stdin.isatty() or Verbosity.errors is not None:
        raise UsageError("no terminal to ask for confirmation: add --yes, or --dry-run to see only the plan")
    return typer.confirm(question, err=True)


def milliseconds(option: str, text: str) -> int:
    """Parses `10m`, `250ms` and so on. Raises UsageError with the name of the option."""
    from kaput.scenario.values import parse_duration_ms

    try:
        return parse_duration_ms(text)
    except ValueError as error:
        raise UsageError(f"{option} {text}: {error}") from None


Columns = Annotated[
    str | None,
    Option(
        metavar="NAME,...",
        help="Columns of the table of several runs, in this order: verdict,lost,election-ms (default: those "
        "that differ).",
    ),
]
Reports = Annotated[
    bool, Option("--reports", help="For several runs, also print every report (default: their paths).")
]


@dataclass(frozen=True)
class TableOptions:
    """`columns`: names of columns, empty: those that differ; `reports`: whether to print every report."""

    columns: tuple[str, ...] = ()
    reports: bool = True


def columns_of(text: str | None, several: bool, varied: Iterable[str]) -> tuple[str, ...]:
    """The names in --columns. `varied`: keys of settings that vary. Raises UsageError."""
    if text is None:
        return ()
    from kaput.report.comparison import parse

    if not several:
        raise UsageError("--columns is for the table of several runs; add --repeat N or a second run")
    return tuple(parse(text, varied))


Brokers = Annotated[
    int | None, Option(min=1, metavar="N", help="Number of brokers (default: the scenario's, or 3).")
]
Controllers = Annotated[
    int | None,
    Option(min=1, metavar="N", help="Number of dedicated controllers (default: none; brokers vote)."),
]
Racks = Annotated[
    list[str] | None,
    Option("--rack", metavar="NAME", help="Name of a rack; brokers are spread over the racks. Repeatable."),
]


def _one_of(*words: str, help: str) -> Any:
    """An option whose value is one of these words, which are proposed."""
    return Option(metavar=f"<{'|'.join(words)}>", autocompletion=completion.one_of(*words), help=help)


Mode = Annotated[str | None, _one_of("kraft", "zookeeper", help="ZooKeeper needs Kafka 3.9 or older.")]
Kafka = Annotated[str | None, Option(metavar="VERSION", help="Kafka version, for example 3.9.2.")]
Network = Annotated[
    str | None,
    _one_of("loopback", "namespaces", help="namespaces: needed for network faults (Linux)."),
]
Security = Annotated[
    str | None, _one_of("none", "scram-tls", help="scram-tls: TLS, SASL/SCRAM and ACLs (KRaft).")
]
AllowUnknown = Annotated[
    bool,
    Option("--allow-unknown", help="Accept settings that Kafka or a Java client does not know (of plugins)."),
]
BrokerConfig = Annotated[
    list[str] | None, Option("--config", metavar="KEY=VALUE", help="A Kafka broker setting. Repeatable.")
]
ClientSettings = Annotated[
    list[str] | None,
    Option("--client-setting", metavar="KEY=VALUE", help="A librdkafka setting. Repeatable."),
]
SparkConf = Annotated[
    list[str] | None,
    Option(
        "--spark-conf", metavar="KEY=VALUE", help="A Spark setting: spark.executor.memory=4g. Repeatable."
    ),
]
KafkaHome = Annotated[
    Path | None, Option(metavar="DIR", help="Use this Kafka installation instead of downloaded jars.")
]


def cluster_block(*, racks: list[str] | None, config: list[str] | None, **options: Any) -> dict[str, Any]:
    """The given options as keys of a scenario's `cluster` block. Raises UsageError."""
    given = {**options, "racks": racks or None, "config": pairs("--config", config) or None}
    return {key: value for key, value in given.items() if value is not None}


def standing_block(scenario: str | None, **options: Any) -> dict[str, Any]:
    """The same of a cluster that stays: with the user's settings for what options and scenario leave open."""
    from kaput.scenario.loader import find

    block, data = cluster_block(**options), {} if scenario is None else find(scenario)[1].data
    return {key: each.value for key, each in cluster_defaults(data, read_settings(), block).items()} | block


def as_overrides(cluster: Mapping[str, Any]) -> dict[str, str]:
    """The given options as `--set` overrides, each with its option for messages."""
    config = {f"config.{key}": value for key, value in cluster.get("config", {}).items()}
    plain = {key: value for key, value in cluster.items() if key != "config"}
    options = {"racks": "--rack"}
    found = {}
    for key, value in {**plain, **config}.items():
        # As YAML: a version like 9.9 would be a number.
        text = value if key in config or _is_text(value) else json.dumps(value)
        given = value if isinstance(value, str) else text
        option = f"--config {key[7:]}={given}" if key in config else f"{options.get(key, f'--{key}')} {given}"
        found[f"cluster.{key}={text}"] = option
    return found


def _is_text(value: object) -> bool:
    import yaml

    try:
        return isinstance(value, str) and yaml.safe_load(value) == value
    except yaml.YAMLError:
        return False


@contextmanager
def naming(options: Mapping[str, str]) -> Iterator[None]:
    """Within the block, messages about these overrides name the option instead of `--set`."""
    try:
        yield
    except UsageError as error:
        text = str(error)
        for override, option in options.items():
            key = override.partition("=")[0]
            text = text.replace(f"--set {override}", option).replace(
                f"{key} is set by --set", f"{key} is set by {option}"
            )
        raise UsageError(text) from None
