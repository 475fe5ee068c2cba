"""Kafka's own command-line tools by their usual names, run from the cluster's jars.

Its place: `kaput tool` becomes the tool, so output, Ctrl-C and exit status are the tool's own.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kaput.cluster.distribution import Distribution, java_command
from kaput.core import NEWEST_KAFKA
from kaput.errors import UnknownFormat, UsageError
from kaput.java import Java
from kaput.operate.registry import ClusterEntry, directory_of
from kaput.processes.mounts import tool
from kaput.scenario.cluster import release_of
from kaput.scenario.nearest import nearest

BOOTSTRAP = "--bootstrap-server"
CONFIG = "--command-config"
_CONFIG_EVERYWHERE = (4, 2)  # from this version on every tool takes CONFIG
_CONTROLLER = ("--bootstrap-controller",)
_PRODUCER, _CONSUMER = "--producer.config", "--consumer.config"
_PACKAGES = ("org.apache.kafka.tools.", "kafka.admin.", "kafka.tools.")  # the last two: in older versions


@dataclass(frozen=True)
class Tool:
    """A tool's main class (in one of _PACKAGES, or with its own; empty: any), and its options for brokers."""

    about: str
    main: str
    bootstrap: str | None = BOOTSTRAP  # the option that takes HOST:PORT,...; None: it contacts no brokers
    others: tuple[str, ...] = ()  # equivalent options: with them `bootstrap` is not added
    first: bool = False  # whether the brokers must precede its subcommand
    more: str | None = None  # the lock file of the additional jars that it needs
    config: str | None = CONFIG  # the option for client properties before Kafka 4.2; None: it has none

    @property
    def mains(self) -> tuple[str, ...]:
        """The names that the main class may have; the first one that the jars have is it."""
        if not self.main or self.main.startswith(("kafka.", "org.")):
            return (self.main,) if self.main else ()
        return tuple(package + self.main for package in _PACKAGES)


TOOLS: dict[str, Tool] = {
    "acls": Tool("manage access rules", "AclCommand", others=_CONTROLLER),
    "broker-api-versions": Tool("show the API versions of each broker", "BrokerApiVersionsCommand"),
    "client-metrics": Tool("configure metrics that clients report", "ClientMetricsCommand"),
    "cluster": Tool("show the cluster's id", "ClusterTool", others=_CONTROLLER, config="--config"),
    "configs": Tool("change settings of topics, brokers, groups", "ConfigCommand", others=_CONTROLLER),
    "console-consumer": Tool("print the records of a topic", "consumer.ConsoleConsumer", config=_CONSUMER),
    "console-producer": Tool("send lines from stdin", "ConsoleProducer", config=_PRODUCER),
    "console-share-consumer": Tool(
        "print records as a member of a share group", "consumer.ConsoleShareConsumer", config=_CONSUMER
    ),
    "consumer-groups": Tool("show members, offsets and lag of groups", "consumer.group.ConsumerGroupCommand"),
    "consumer-perf-test": Tool(
        "measure how fast a topic can be read", "ConsumerPerformance", config=_CONSUMER
    ),
    "delegation-tokens": Tool("manage delegation tokens", "DelegationTokenCommand"),
    "delete-records": Tool("delete records up to an offset", "DeleteRecordsCommand"),
    "dump-log": Tool("print the records in a log file", "DumpLogSegments", bootstrap=None),
    "features": Tool("show and change feature levels", "FeatureCommand", others=_CONTROLLER, first=True),
    "get-offsets": Tool("show first and last offsets", "GetOffsetShell"),
    "groups": Tool("list groups of all types", "GroupsCommand"),
    "jmx": Tool("print metrics of a JVM", "JmxTool", bootstrap=None),
    "leader-election": Tool("trigger leader elections", "LeaderElectionCommand", config="--admin.config"),
    "log-dirs": Tool("show the size of replicas in each log directory", "LogDirsCommand"),
    "metadata-quorum": Tool(
        "show the voters and leader of the quorum", "MetadataQuorumCommand", others=_CONTROLLER, first=True
    ),
    "mirror-maker": Tool(
        "copy topics between clusters (Connect)",
        "org.apache.kafka.connect.mirror.MirrorMaker",
        bootstrap=None,
        more="mirror",
    ),
    "producer-perf-test": Tool(
        "measure how fast messages can be sent", "ProducerPerformance", config=_PRODUCER
    ),
    "reassign-partitions": Tool(
        "move partitions to other brokers", "reassign.ReassignPartitionsCommand", others=_CONTROLLER
    ),
    "replica-verification": Tool(
        "check that replicas are equal", "ReplicaVerificationTool", bootstrap="--broker-list", config=None
    ),
    "run-class": Tool("run any main class of the jars", "", bootstrap=None),
    "server-start": Tool(
        "start a broker or controller from its server.properties", "kafka.Kafka", bootstrap=None
    ),
    "share-consumer-perf-test": Tool(
        "measure how fast a share group can read", "ShareConsumerPerformance", config=_CONSUMER
    ),
    "share-groups": Tool("show members and offsets of share groups", "consumer.group.ShareGroupCommand"),
    "storage": Tool("format or inspect a node's directories", "kafka.tools.StorageTool", bootstrap=None),
    "streams-application-reset": Tool(
        "reset a Streams application", "StreamsResetter", config="--config-file"
    ),
    "streams-groups": Tool("show groups of Streams applications", "streams.StreamsGroupCommand"),
    "topics": Tool("create, describe, change and delete topics", "TopicCommand"),
    "transactions": Tool("find and end transactions", "TransactionsCommand", first=True),
    "verifiable-consumer": Tool(
        "read, and report everything as JSON", "VerifiableConsumer", config=_CONSUMER
    ),
    "verifiable-producer": Tool(
        "send numbers, and report everything as JSON", "VerifiableProducer", config=_PRODUCER
    ),
    "verifiable-share-consumer": Tool(
        "the same in a share group", "VerifiableShareConsumer", config=_CONSUMER
    ),
}
# Old names of tools.
_RENAMED = {"preferred-replica-election": "leader-election", "delegation-token": "delegation-tokens"}
# Tools that cannot be run, and what replaces them.
_REPLACED_BY = {
    "replay-log-producer": "Kafka removed it; use kaput replay SOURCE TARGET",
    "simple-consumer-shell": "Kafka removed it; use kaput peek TOPIC/PARTITION --replica N",
    "server-stop": (
        "it would stop every broker on this machine; to stop one of a running cluster: "
        "kaput fault inject stop --target 'broker N', to stop the cluster: kaput down"
    ),
}
_ELECTION = {"preferred-replica-election": ["--election-type", "preferred"]}


@dataclass(frozen=True)
class ToolCall:
    """A tool to run: its current name, and the arguments that an old name implies."""

    name: str
    tool: Tool
    arguments: tuple[str, ...] = ()


def find_tool(text: str) -> ToolCall:
    """Finds a tool: `kafka-topics.sh`, `kafka-topics` or `topics`. Raises UsageError with a suggestion."""
    name = text.removesuffix(".sh").removesuffix(".bat").removeprefix("kafka-")
    current = _RENAMED.get(name, name)
    if name in _REPLACED_BY:
        raise UsageError(f"{text}: {_REPLACED_BY[name]}")
    if current not in TOOLS:
        begun = [tool for tool in TOOLS if len(name) > 2 and tool.startswith(name)]
        near = begun[:3] or nearest(name, [*TOOLS, *_RENAMED], count=3)
        known = f"did you mean {' or '.join(near)}?" if near else "kaput tool --list lists them"
        raise UsageError(f"{text}: not one of Kafka's tools; {known}")
    return ToolCall(current, TOOLS[current], tuple(_ELECTION.get(name, ())))


def command(
    call: ToolCall,
    arguments: Sequence[str],
    servers: str | None,
    distribution: Distribution,
    java: Java,
    archive: Path | None = None,
    properties: Path | None = None,
) -> list[str]:
    """The command line of the tool's JVM. `servers` and the client `properties` are added unless the
    arguments have them. `archive`: a class archive, for a quick start. Raises UsageError.
    """
    rest = list(arguments)
    if call.name == "run-class":
        if not rest:
            raise UsageError("run-class: name a class, for example org.apache.kafka.tools.TopicCommand")
        main = rest.pop(0)
    else:
        main = _main_class(call, distribution)
    access = None
    if properties is not None and call.tool.config is not None:
        of_today = distribution.release >= _CONFIG_EVERYWHERE
        access = CONFIG if of_today else call.tool.config, str(properties)
    return java_command(
        java,
        distribution,
        main,
        _arguments(call, rest, servers, access),
        archive=archive,
        heap=("-Xms32m", "-Xmx512m"),
        flags=["-Dlog4j2.configurationFile=" + str(Path(__file__).with_name("tools-log4j2.xml"))],
    )


def _arguments(
    call: ToolCall, given: Sequence[str], servers: str | None, access: tuple[str, str] | None
) -> list[str]:
    """`access`: the option for client properties and its value."""
    tool, options = call.tool, {word.partition("=")[0] for word in given}
    brokers: list[str] = []
    named = options & {tool.bootstrap, *tool.others, "--help", "--version"}
    if servers is not None and tool.bootstrap is not None and not named:
        brokers = [tool.bootstrap, servers]
        # If the arguments name brokers, client properties are up to them too.
        if access is not None and not options & {CONFIG, tool.config}:
            brokers += access
    own = list(given)
    if call.arguments and call.arguments[0] not in own:
        own += call.arguments
    return [*brokers, *own] if tool.first else [*own, *brokers]


def _main_class(call: ToolCall, distribution: Distribution) -> str:
    for main in call.tool.mains:
        if distribution.has_class(main):
            return main
    if distribution.release > release_of(NEWEST_KAFKA):
        raise UnknownFormat(f"{call.name}: Kafka {distribution.version} has it in another place, if at all")
    raise UsageError(f"{call.name}: Kafka {distribution.version} has no such tool")


CLUSTER = "KAPUT_CLUSTER"  # the default of --cluster inside the shell
BOOTSTRAP_SERVERS = "BOOTSTRAP_SERVERS"
CLIENT_PROPERTIES = "CLIENT_PROPERTIES"  # the security settings for clients, if they need any


def enter(entry: ClusterEntry, command: Sequence[str]) -> None:
    """Replaces this process by the command, or by a shell. Raises UsageError, LabError."""
    wanted = list(command) or [os.environ.get("SHELL", "/bin/sh")]
    env = {
        **os.environ,
        CLUSTER: entry.name,
        BOOTSTRAP_SERVERS: entry.bootstrap_servers,
        **({CLIENT_PROPERTIES: entry.client_properties} if entry.client_properties else {}),
        "PATH": os.pathsep.join([str(_tools(entry)), os.environ.get("PATH", os.defpath)]),
    }
    program = shutil.which(wanted[0], path=env["PATH"])
    if program is None:
        raise UsageError(f"{wanted[0]}: no such program on the PATH")
    sys.stdout.flush()
    again = [*_nsenter_command(entry), program, *wanted[1:]]
    os.execve(again[0], again, env)


def _nsenter_command(entry: ClusterEntry) -> list[str]:
    if entry.network != "namespaces":
        return []
    # An ordinary user's cluster is also in a user namespace.
    users = [] if os.geteuid() == 0 else ["-U", "--preserve-credentials"]
    return [tool("nsenter"), "-t", str(entry.pid), *users, "-n", "--"]


def _tools(entry: ClusterEntry) -> Path:
    """A directory with a script for each tool, under its usual names."""
    folder = directory_of(entry.name).path / "bin"
    folder.mkdir(exist_ok=True)
    for name in TOOLS:
        for known in (f"kafka-{name}", f"kafka-{name}.sh"):
            script = folder / known
            if not script.exists():
                script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m kaput tool {name} "$@"\n')
                script.chmod(0o755)
    return folder
