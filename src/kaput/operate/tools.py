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

_TOOLS, _ADMIN = "org.apache.kafka.tools.", "kafka.admin."
BOOTSTRAP = "--bootstrap-server"
CONFIG = "--command-config"
_CONFIG_EVERYWHERE = (4, 2)  # from this version on every tool takes CONFIG
_PRODUCER, _CONSUMER = "--producer.config", "--consumer.config"


@dataclass(frozen=True)
class Tool:
    """A tool's main class (the first of `mains` that the jars have), and its options for brokers."""

    mains: tuple[str, ...]
    about: str
    bootstrap: str | None = BOOTSTRAP  # the option that takes HOST:PORT,...; None: it contacts no brokers
    others: tuple[str, ...] = ()  # equivalent options: with them `bootstrap` is not added
    first: bool = False  # whether the brokers must precede its subcommand
    more: str | None = None  # the lock file of the additional jars that it needs
    config: str | None = CONFIG  # the option for client properties before Kafka 4.2; None: it has none


def _in_tools(
    name: str, about: str, *older: str, bootstrap: str | None = BOOTSTRAP, config: str | None = CONFIG
) -> Tool:
    return Tool((f"{_TOOLS}{name}", *older), about, bootstrap, config=config)


_CONTROLLER = ("--bootstrap-controller",)
TOOLS: dict[str, Tool] = {
    "acls": Tool((f"{_TOOLS}AclCommand", f"{_ADMIN}AclCommand"), "manage access rules", others=_CONTROLLER),
    "broker-api-versions": _in_tools(
        "BrokerApiVersionsCommand",
        "show the API versions of each broker",
        f"{_ADMIN}BrokerApiVersionsCommand",
    ),
    "client-metrics": _in_tools("ClientMetricsCommand", "configure metrics that clients report"),
    "cluster": Tool(
        (f"{_TOOLS}ClusterTool", "kafka.tools.ClusterTool"),
        "show the cluster's id",
        others=_CONTROLLER,
        config="--config",
    ),
    "configs": Tool(
        (f"{_TOOLS}ConfigCommand", f"{_ADMIN}ConfigCommand"),
        "change settings of topics, brokers, groups",
        others=_CONTROLLER,
    ),
    "console-consumer": _in_tools(
        "consumer.ConsoleConsumer", "print the records of a topic", config=_CONSUMER
    ),
    "console-producer": _in_tools(
        "ConsoleProducer", "send lines from stdin", "kafka.tools.ConsoleProducer", config=_PRODUCER
    ),
    "console-share-consumer": _in_tools(
        "consumer.ConsoleShareConsumer", "print records as a member of a share group", config=_CONSUMER
    ),
    "consumer-groups": _in_tools(
        "consumer.group.ConsumerGroupCommand", "show members, offsets and lag of groups"
    ),
    "consumer-perf-test": _in_tools(
        "ConsumerPerformance", "measure how fast a topic can be read", config=_CONSUMER
    ),
    "delegation-tokens": _in_tools("DelegationTokenCommand", "manage delegation tokens"),
    "delete-records": _in_tools("DeleteRecordsCommand", "delete records up to an offset"),
    "dump-log": _in_tools(
        "DumpLogSegments", "print the records in a log file", "kafka.tools.DumpLogSegments", bootstrap=None
    ),
    "features": Tool(
        (f"{_TOOLS}FeatureCommand", f"{_ADMIN}FeatureCommand"),
        "show and change feature levels",
        others=_CONTROLLER,
        first=True,
    ),
    "get-offsets": _in_tools("GetOffsetShell", "show first and last offsets"),
    "groups": _in_tools("GroupsCommand", "list groups of all types"),
    "jmx": _in_tools("JmxTool", "print metrics of a JVM", bootstrap=None),
    "leader-election": _in_tools(
        "LeaderElectionCommand", "trigger leader elections", config="--admin.config"
    ),
    "log-dirs": _in_tools("LogDirsCommand", "show the size of replicas in each log directory"),
    "metadata-quorum": Tool(
        (f"{_TOOLS}MetadataQuorumCommand",),
        "show the voters and leader of the quorum",
        others=_CONTROLLER,
        first=True,
    ),
    "mirror-maker": Tool(
        ("org.apache.kafka.connect.mirror.MirrorMaker",),
        "copy topics between clusters (Connect)",
        None,
        more="mirror",
    ),
    "producer-perf-test": _in_tools(
        "ProducerPerformance", "measure how fast messages can be sent", config=_PRODUCER
    ),
    "reassign-partitions": Tool(
        (f"{_TOOLS}reassign.ReassignPartitionsCommand",),
        "move partitions to other brokers",
        others=_CONTROLLER,
    ),
    "replica-verification": Tool(
        (f"{_TOOLS}ReplicaVerificationTool",), "check that replicas are equal", "--broker-list", config=None
    ),
    "run-class": Tool((), "run any main class of the jars", None),
    "server-start": Tool(("kafka.Kafka",), "start a broker or controller from its server.properties", None),
    "share-consumer-perf-test": _in_tools(
        "ShareConsumerPerformance", "measure how fast a share group can read", config=_CONSUMER
    ),
    "share-groups": _in_tools("consumer.group.ShareGroupCommand", "show members and offsets of share groups"),
    "storage": Tool(("kafka.tools.StorageTool",), "format or inspect a node's directories", None),
    "streams-application-reset": _in_tools(
        "StreamsResetter",
        "reset a Streams application",
        "kafka.tools.StreamsResetter",
        config="--config-file",
    ),
    "streams-groups": _in_tools("streams.StreamsGroupCommand", "show groups of Streams applications"),
    "topics": _in_tools("TopicCommand", "create, describe, change and delete topics"),
    "transactions": Tool((f"{_TOOLS}TransactionsCommand",), "find and end transactions", first=True),
    "verifiable-consumer": _in_tools(
        "VerifiableConsumer", "read, and report everything as JSON", config=_CONSUMER
    ),
    "verifiable-producer": _in_tools(
        "VerifiableProducer", "send numbers, and report everything as JSON", config=_PRODUCER
    ),
    "verifiable-share-consumer": _in_tools(
        "VerifiableShareConsumer", "the same in a share group", config=_CONSUMER
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
    return java_command(
        java,
        distribution,
        main,
        _arguments(
            call,
            rest,
            servers,
            None if properties is None else _config_option(call, properties, distribution),
        ),
        archive=archive,
        heap=("-Xms32m", "-Xmx512m"),
        flags=["-Dlog4j2.configurationFile=" + str(Path(__file__).with_name("tools-log4j2.xml"))],
    )


def _config_option(call: ToolCall, properties: Path, distribution: Distribution) -> tuple[str, str] | None:
    """The option for client properties and its value; None if the tool has none."""
    if call.tool.config is None:
        return None
    of_today = distribution.release >= _CONFIG_EVERYWHERE
    return CONFIG if of_today else call.tool.config, str(properties)


def _arguments(
    call: ToolCall, given: Sequence[str], servers: str | None, access: tuple[str, str] | None
) -> list[str]:
    brokers = _broker_arguments(call.tool, given, servers)
    options = {word.partition("=")[0] for word in given}
    # If the arguments name brokers, client properties are up to them too.
    if brokers and access is not None and not options & {CONFIG, call.tool.config}:
        brokers += access
    own = [*given, *_not_given(call.arguments, given)]
    return [*brokers, *own] if call.tool.first else [*own, *brokers]


def _not_given(wanted: Sequence[str], given: Sequence[str]) -> list[str]:
    return [] if not wanted or wanted[0] in given else list(wanted)


def _broker_arguments(tool: Tool, given: Sequence[str], servers: str | None) -> list[str]:
    options = {word.partition("=")[0] for word in given}
    if servers is None or tool.bootstrap is None or options & {tool.bootstrap, *tool.others}:
        return []
    if options & {"--help", "--version"}:
        return []
    return [tool.bootstrap, servers]


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
