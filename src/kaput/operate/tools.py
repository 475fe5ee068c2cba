"""Kafka's own tools by the names that people know, from the jars of the cluster.

Its place: `kaput tool` runs one in its own process, so that streams, Ctrl-C and exit status are the tool's.
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kaput.cluster.distribution import Distribution
from kaput.cluster.jvm import java_command
from kaput.errors import UsageError
from kaput.java import Java
from kaput.scenario.nearest import nearest

_TOOLS, _ADMIN = "org.apache.kafka.tools.", "kafka.admin."
BOOTSTRAP = "--bootstrap-server"
CONFIG = "--command-config"
_ONE_NAME_FOR_ALL = (4, 2)  # since when every tool takes CONFIG
_PRODUCER, _CONSUMER = "--producer.config", "--consumer.config"


@dataclass(frozen=True)
class Tool:
    """Where a tool's main class is (the first that the jars have), and how it is told the brokers."""

    mains: tuple[str, ...]
    about: str
    bootstrap: str | None = BOOTSTRAP  # the option that takes HOST:PORT,...; None: it asks no brokers
    others: tuple[str, ...] = ()  # options that say the same, after which `bootstrap` is not added
    first: bool = False  # whether the brokers are said before its subcommand, and nowhere else
    more: str | None = None  # the lock file of further jars that it needs
    config: str | None = CONFIG  # the option for client properties before Kafka 4.2; None: there is none


def _in_tools(
    name: str, about: str, *older: str, bootstrap: str | None = BOOTSTRAP, config: str | None = CONFIG
) -> Tool:
    return Tool((f"{_TOOLS}{name}", *older), about, bootstrap, config=config)


_CONTROLLER = ("--bootstrap-controller",)
TOOLS: dict[str, Tool] = {
    "acls": Tool((f"{_TOOLS}AclCommand", f"{_ADMIN}AclCommand"), "who may do what", others=_CONTROLLER),
    "broker-api-versions": _in_tools(
        "BrokerApiVersionsCommand", "what each broker speaks", f"{_ADMIN}BrokerApiVersionsCommand"
    ),
    "client-metrics": _in_tools("ClientMetricsCommand", "what clients are asked to report"),
    "cluster": Tool(
        (f"{_TOOLS}ClusterTool", "kafka.tools.ClusterTool"),
        "the cluster's id",
        others=_CONTROLLER,
        config="--config",
    ),
    "configs": Tool((f"{_ADMIN}ConfigCommand",), "settings of topics, brokers, groups", others=_CONTROLLER),
    "console-consumer": _in_tools("consumer.ConsoleConsumer", "print what is in a topic", config=_CONSUMER),
    "console-producer": _in_tools(
        "ConsoleProducer", "send lines of stdin", "kafka.tools.ConsoleProducer", config=_PRODUCER
    ),
    "console-share-consumer": _in_tools(
        "consumer.ConsoleShareConsumer", "print, as one of a share group", config=_CONSUMER
    ),
    "consumer-groups": _in_tools("consumer.group.ConsumerGroupCommand", "members, offsets and lag of groups"),
    "consumer-perf-test": _in_tools("ConsumerPerformance", "how fast a topic can be read", config=_CONSUMER),
    "delegation-tokens": _in_tools("DelegationTokenCommand", "tokens that stand for a user"),
    "delete-records": _in_tools("DeleteRecordsCommand", "delete records up to an offset"),
    "dump-log": _in_tools(
        "DumpLogSegments", "what is in a log", "kafka.tools.DumpLogSegments", bootstrap=None
    ),
    "features": Tool(
        (f"{_TOOLS}FeatureCommand", f"{_ADMIN}FeatureCommand"),
        "which features are on",
        others=_CONTROLLER,
        first=True,
    ),
    "get-offsets": _in_tools("GetOffsetShell", "first and last offsets"),
    "groups": _in_tools("GroupsCommand", "all groups, of every type"),
    "jmx": _in_tools("JmxTool", "metrics of a JVM", bootstrap=None),
    "leader-election": _in_tools(
        "LeaderElectionCommand", "have leaders elected anew", config="--admin.config"
    ),
    "log-dirs": _in_tools("LogDirsCommand", "how much each broker stores where"),
    "metadata-quorum": Tool(
        (f"{_TOOLS}MetadataQuorumCommand",), "who votes, who leads", others=_CONTROLLER, first=True
    ),
    "mirror-maker": Tool(
        ("org.apache.kafka.connect.mirror.MirrorMaker",),
        "copy topics between clusters (Connect)",
        None,
        more="mirror",
    ),
    "producer-perf-test": _in_tools("ProducerPerformance", "how fast one can send", config=_PRODUCER),
    "reassign-partitions": Tool(
        (f"{_TOOLS}reassign.ReassignPartitionsCommand",),
        "move partitions to other brokers",
        others=_CONTROLLER,
    ),
    "replica-verification": Tool(
        (f"{_TOOLS}ReplicaVerificationTool",), "whether replicas are equal", "--broker-list", config=None
    ),
    "run-class": Tool((), "any main class of the jars, named first", None),
    "server-start": Tool(("kafka.Kafka",), "a broker or controller, by its server.properties", None),
    "share-consumer-perf-test": _in_tools(
        "ShareConsumerPerformance", "how fast a share group can read", config=_CONSUMER
    ),
    "share-groups": _in_tools("consumer.group.ShareGroupCommand", "members and offsets of share groups"),
    "storage": Tool(("kafka.tools.StorageTool",), "format or look at a node's directories", None),
    "streams-application-reset": _in_tools(
        "StreamsResetter",
        "have a Streams application begin anew",
        "kafka.tools.StreamsResetter",
        config="--config-file",
    ),
    "streams-groups": _in_tools("streams.StreamsGroupCommand", "groups of Streams applications"),
    "topics": _in_tools("TopicCommand", "make, describe, change and delete topics"),
    "transactions": Tool((f"{_TOOLS}TransactionsCommand",), "find and end transactions", first=True),
    "verifiable-consumer": _in_tools(
        "VerifiableConsumer", "read, and say everything in JSON", config=_CONSUMER
    ),
    "verifiable-producer": _in_tools(
        "VerifiableProducer", "send numbers, and say everything in JSON", config=_PRODUCER
    ),
    "verifiable-share-consumer": _in_tools(
        "VerifiableShareConsumer", "the same in a share group", config=_CONSUMER
    ),
}
# Names of before, and what they are called now.
_RENAMED = {"preferred-replica-election": "leader-election", "delegation-token": "delegation-tokens"}
# Those that are not run from here, and what does the same.
_SUCCESSORS = {
    "replay-log-producer": "Kafka has removed it; its successor is kaput replay SOURCE TARGET",
    "simple-consumer-shell": "Kafka has removed it; its successor is kaput peek TOPIC/PARTITION --replica N",
    "server-stop": (
        "it would end every broker of this machine; for one of a cluster that stands: "
        "kaput fault inject stop --target 'broker N', for all of them kaput down"
    ),
}
_ELECTION = {"preferred-replica-election": ["--election-type", "preferred"]}


@dataclass(frozen=True)
class Call:
    """A tool that was asked for: its name of today, and what its old name stands for."""

    name: str
    tool: Tool
    arguments: tuple[str, ...] = ()


def named(text: str) -> Call:
    """`kafka-topics.sh`, `kafka-topics` and `topics` are one. Raises UsageError naming the nearest."""
    name = text.removesuffix(".sh").removesuffix(".bat").removeprefix("kafka-")
    current = _RENAMED.get(name, name)
    if name in _SUCCESSORS:
        raise UsageError(f"{text}: {_SUCCESSORS[name]}")
    if current not in TOOLS:
        near = nearest(name, [*TOOLS, *_RENAMED], count=3, cutoff=0.4)
        known = f"did you mean {' or '.join(near)}?" if near else "kaput tool --list names them all"
        raise UsageError(f"{text}: no tool of Kafka's; {known}")
    return Call(current, TOOLS[current], tuple(_ELECTION.get(name, ())))


def command(
    call: Call,
    arguments: Sequence[str],
    servers: str | None,
    distribution: Distribution,
    java: Java,
    archive: Path | None = None,
    properties: Path | None = None,
) -> list[str]:
    """The command line of the tool's JVM; it is told `servers` if the arguments don't, and then `properties`
    (the file by which clients are let in), if there are any.

    `archive`: of loaded classes, for a quick start. Raises UsageError.
    """
    rest = list(arguments)
    if call.name == "run-class":
        if not rest:
            raise UsageError("run-class: which class? For example org.apache.kafka.tools.TopicCommand")
        main = rest.pop(0)
    else:
        main = _main(call, distribution)
    return java_command(
        java,
        distribution,
        main,
        _told(call, rest, servers, None if properties is None else _access(call, properties, distribution)),
        archive=archive,
        heap=("-Xms32m", "-Xmx512m"),
        flags=["-Dlog4j2.configurationFile=" + str(Path(__file__).with_name("tools-log4j2.xml"))],
    )


def _access(call: Call, properties: Path, distribution: Distribution) -> tuple[str, str] | None:
    """How the tool is told client properties; None where it cannot be."""
    if call.tool.config is None:
        return None
    of_today = distribution.release >= _ONE_NAME_FOR_ALL
    return CONFIG if of_today else call.tool.config, str(properties)


def _told(call: Call, given: Sequence[str], servers: str | None, access: tuple[str, str] | None) -> list[str]:
    brokers = _brokers(call.tool, given, servers)
    said = {word.partition("=")[0] for word in given}
    # Whoever says the brokers says how to be let in as well.
    if brokers and access is not None and not said & {CONFIG, call.tool.config}:
        brokers += access
    own = [*given, *_missing(call.arguments, given)]
    return [*brokers, *own] if call.tool.first else [*own, *brokers]


def _missing(wanted: Sequence[str], given: Sequence[str]) -> list[str]:
    return [] if not wanted or wanted[0] in given else list(wanted)


def _brokers(tool: Tool, given: Sequence[str], servers: str | None) -> list[str]:
    said = {word.partition("=")[0] for word in given}
    if servers is None or tool.bootstrap is None or said & {tool.bootstrap, *tool.others}:
        return []
    if said & {"--help", "--version"}:
        return []
    return [tool.bootstrap, servers]


def _main(call: Call, distribution: Distribution) -> str:
    for main in call.tool.mains:
        if _has(distribution.jars, main):
            return main
    raise UsageError(f"{call.name}: Kafka {distribution.version} has no such tool")


@cache
def _has(jars: tuple[Path, ...], main: str) -> bool:
    entry = main.replace(".", "/") + ".class"
    for jar in jars:
        # Kafka's own jars alone: to open all of them takes longer than most tools.
        if jar.name.startswith(("kafka", "connect")):
            with zipfile.ZipFile(jar) as opened:
                if entry in opened.NameToInfo:
                    return True
    return False
