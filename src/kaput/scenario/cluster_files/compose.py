"""A Compose file's brokers and controllers: the services that run Kafka, and how many containers each has."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kaput.errors import UsageError
from kaput.scenario.cluster_files.compose_variables import Variables
from kaput.scenario.cluster_files.described_cluster import (
    DescribedCluster,
    Setting,
    is_nodes_own,
    quorum,
)
from kaput.scenario.cluster_files.yaml_documents import Document, documents_of

# Variables of an image's own scripts that are no settings.
_NOT_SETTINGS = (
    "advertised.host.name.command", "broker.id.command", "cluster.id", "create.topics", "debug",
    "enable.kraft", "gc.log.opts", "heap.opts", "home", "jmx.", "jvm.", "kraft.", "log4j.", "opts",
    "start.timeout", "tools.", "version",
)  # fmt: skip
_IMAGE = re.compile(
    r"(?:^|/)(?P<name>kafka|kafka-native|kafka-\d+-rhel\d+|cp-kafka|cp-enterprise-kafka|cp-server"
    r"|confluent-local)(?::(?P<tag>[\w.-]*))?(?:@|$)"
)
_BITNAMIS = re.compile("bitnami|soldevelo")  # and those made of them
_IMAGES = "apache/kafka, bitnami/kafka, confluentinc/cp-kafka or cp-server"
_STRIMZI_IMAGE = re.compile(r"kafka-(\d+\.\d+\.\d+)$")  # 0.40.0-kafka-3.7.0
_WURSTMEISTERS_TAG = re.compile(r"2\.1\d-(\d+\.\d+\.\d+)$")  # of Scala, and of Kafka
_RED_HATS_IMAGE = re.compile(r"kafka-(\d)(\d+)-rhel")
_VERSION = re.compile(r"\d+\.\d+(?:\.\d+)?(?![\d.])")
_CONFLUENT = re.compile(r"(\d+)\.(\d+)(?!\d)")
_KAFKAS_OF_CONFLUENT = {5: (2, 0), 6: (2, 6), 7: (3, 0), 8: (4, 0)}  # 7.6 has Kafka 3.6
# What a container runs instead of its image's own command: a broker, or tools once.
_STARTS_A_NODE = re.compile(
    r"(?<!zookeeper-)server-start|docker/(?:run|launch)|kafka/run\.sh|start-kafka|kafka\.Kafka\b"
)
_TOOLS = re.compile(
    r"kafka-(?:acls|broker-api|cluster|configs|console|consumer|features|get-offsets|leader|metadata|mirror"
    r"|producer|reassign|run-class|storage|topics|verifiable)|\bcub\b|\bconnect-|schema-registry"
    r"|zookeeper-server|\bsleep inf|\btail -f\b"
)
_OF_NODES = {"process.roles", "zookeeper.connect", "advertised.listeners"}


@dataclass(frozen=True)
class _Service:
    """A service that runs Kafka; `count`: of its containers."""

    name: str
    image: str
    tag: str
    settings: dict[str, Setting]
    count: int
    place: str

    @property
    def roles(self) -> set[str]:
        roles = self.settings.get("process.roles", Setting("broker", self.place)).value
        return {each.strip() for each in str(roles).split(",")}


def of_compose(document: Document) -> DescribedCluster:
    """The services that run Kafka; settings are those of the first broker."""
    path = Path(document.source.name)
    described = DescribedCluster()
    variables = Variables(path)
    found = [
        _service(document, name, variables, described.replaced, described.topics)
        for name in document.data["services"]
    ]
    nodes = [each for each in found if each is not None]
    brokers = [each for each in nodes if "broker" in each.roles]
    if not brokers:
        reasons = "".join(f"\n  {each}" for each in described.replaced)
        raise UsageError(
            f"{path}: no service has an image of Kafka ({_IMAGES}), or none is a broker{reasons}"
        )
    first = brokers[0]
    nodes = list(_of_one_cluster(first, nodes, described.replaced))
    brokers = [each for each in brokers if each in nodes]
    others = ["include"] if "include" in document.data else []
    override = path.with_stem(f"{path.stem}.override")
    for other in [*others, *([override.name] if override.exists() else [])]:
        described.replaced.append(f"{other}: not read; `docker compose config` prints all in one file")
    described.replaced += [f"variable {name}: not set, and so empty" for name in variables.unset]
    _take_nodes(described, nodes, brokers)
    return described


def _take_nodes(described: DescribedCluster, nodes: list[_Service], brokers: list[_Service]) -> None:
    first = brokers[0]
    settings = first.settings
    zookeeper = "zookeeper.connect" in settings and "process.roles" not in settings
    version = _kafka_version(first.image, first.tag)
    described.set_kafka(version, f"{first.place}: image {first.image or 'is built'}", zookeeper=zookeeper)
    described.cluster["brokers"] = sum(each.count for each in brokers)
    if zookeeper:
        described.set_zookeepers(len(quorum(settings)))
    dedicated = sum(each.count for each in nodes if each not in brokers)
    described.set_controllers(dedicated, sum(each.count for each in brokers if "controller" in each.roles))
    racks = [
        each.settings.get("broker.rack", Setting("", "")).value for each in brokers for _ in range(each.count)
    ]
    if all(racks):
        described.set_racks(racks)
        settings = {name: each for name, each in settings.items() if name != "broker.rack"}
    described.take(settings)
    described.replaced += [line for other in brokers[1:] for line in _differences(first, other)]


def _differences(first: _Service, other: _Service) -> Iterator[str]:
    for name in {**first.settings, **other.settings}:
        mine, theirs = first.settings.get(name), other.settings.get(name)
        same = mine is not None and theirs is not None and mine.value == theirs.value
        if not same and not is_nodes_own(name) and name != "broker.rack":
            what = f"{name}={theirs.value}" if theirs is not None else f"no {name}"
            yield f"{other.name}: {what}: all brokers have those of {first.name}"


def _of_one_cluster(first: _Service, nodes: list[_Service], left_out: list[str]) -> Iterator[_Service]:
    """The nodes of the first broker's cluster; the others are listed."""
    ours = quorum(first.settings)
    for each in nodes:
        theirs = quorum(each.settings)
        if ours and theirs and not ours & theirs:
            left_out.append(f"service {each.name}: of another cluster than {first.name}")
        else:
            yield each


def _service(
    document: Document,
    name: str,
    variables: Variables,
    left_out: list[str],
    topics: list[dict[str, Any]],
) -> _Service | None:
    """The service if it is a node of Kafka's; if not, it is listed, with the reason, and the topics that it
    creates are noted.
    """
    if image := _foreign_image(document, name, variables):
        left_out.append(f"service {name}: image {image} is not known to be Kafka")
        return None
    service, environment = _merged(document, name, variables)
    place = document.place("services", name)
    image = variables.expanded(str(service.get("image") or ""), document.place("services", name, "image"))
    settings = _settings(environment, only_prefixed=_BITNAMIS.search(image) is not None)
    match = _IMAGE.search(image)
    command = _words(service.get("entrypoint"), service.get("command"))
    profiles = _strings(service.get("profiles"))
    if match is None and not settings.keys() & _OF_NODES:
        what = f"image {image}" if image else "what it builds"
        left_out.append(f"service {name}: {what} is not known to be Kafka")
    elif (
        command
        and not _STARTS_A_NODE.search(command)
        and (_TOOLS.search(command) or not settings.keys() & _OF_NODES)
    ):
        left_out.append(f"service {name}: its command starts no broker")
        words = [*_shell_words(service.get("entrypoint")), *_shell_words(service.get("command"))]
        topics += _topics_of(words, document.source.name)
    elif profiles and not variables.active(profiles):
        left_out.append(f"service {name}: only in the profile {', '.join(profiles)} (COMPOSE_PROFILES)")
    elif not (count := _count(document, name, service, variables)):
        left_out.append(f"service {name}: has no container")
    else:
        left_out += _not_read(name, service, environment)
        return _Service(name, image, match["tag"] or "" if match else "", settings, count, place)
    return None


_SEPARATORS = ";&|\n"
_TOPIC_TOOL = re.compile(r"(?:.*[/(`])?kafka-topics(?:\.sh)?")


def _shell_words(command: Any) -> list[str]:
    """The words of a command, which may be a list; those of scripts in it, too, after a separator."""
    if isinstance(command, list):
        return [word for each in command for word in _of_word(str(each))]
    text = str(command or "").replace("\\\n", " ")
    lexer = shlex.shlex(text, posix=True, punctuation_chars=_SEPARATORS)
    lexer.whitespace, lexer.commenters = " \t\r", ""
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError:  # a quote without its end
        words = re.findall(rf"[{_SEPARATORS}]|[^\s{_SEPARATORS}\"']+", text)
    return [each for word in words for each in (_of_word(word) if word != text else [word])]


def _of_word(word: str) -> list[str]:
    is_script = "kafka-topics" in word and re.search(r"\s", word.strip())
    return [";", *_shell_words(word), ";"] if is_script else [word]


def _topics_of(words: list[str], file: str) -> list[dict[str, Any]]:
    """The topics that a command creates with kafka-topics, as a scenario has them."""
    topics: dict[str, dict[str, Any]] = {}
    calls: list[list[str]] = [[]]
    for word in words:
        if (word and set(word) <= set(_SEPARATORS)) or _TOPIC_TOOL.fullmatch(word):
            calls.append([])
        if calls[-1] or _TOPIC_TOOL.fullmatch(word):
            calls[-1].append(word)
    for _, *call in filter(None, calls):
        options = _options(call, file)
        (name,) = options.get("topic") or [""]
        if "--create" not in call or not re.fullmatch(r"[\w.-]+", name):
            continue
        topic: dict[str, Any] = {"name": name}
        for option in ("partitions", "replication-factor"):
            number = (options.get(option) or [""])[0]
            if re.fullmatch("[0-9]{1,6}", number):
                topic[option] = int(number)
        settings = [each.partition("=") for each in options.get("config") or ()]
        if config := {key: value for key, _, value in settings if re.fullmatch("[a-z.]+", key) and value}:
            topic["config"] = config
        topics.setdefault(name, topic)
    return list(topics.values())


def _options(call: list[str], file: str) -> dict[str, list[str]]:
    """The values of each option; of those that may come once the last. Without those that only the script or
    its container knows.
    """
    found: dict[str, list[str]] = {}
    for at, word in enumerate(call):
        option, equals, text = word.partition("=")
        name = option.removeprefix("--")
        if name == option or name not in ("topic", "partitions", "replication-factor", "config"):
            continue
        value = _filled_in(text if equals else "".join(call[at + 1 : at + 2]), file)
        if value is not None:
            found[name] = [*found.get(name, ()), value] if name == "config" else [value]
    return found


def _filled_in(text: str, file: str) -> str | None:
    """With Compose's variables; None if there are others, or none of that name: the container needs not run
    here, so its variables need not be set.
    """
    variables = Variables(Path(file))
    with suppress(UsageError):
        value = variables.expanded(text, file)
        return None if variables.unset or "$" in value else value
    return None


def _foreign_image(document: Document, name: str, variables: Variables) -> str:
    """The image of a service that is none of Kafka's nodes, whose files and variables need not be here."""
    service = document.mapping("services", name)
    image = variables.expanded(str(service.get("image") or ""), document.place("services", name, "image"))
    names = {str(each).partition("=")[0] for each in service.get("environment") or ()}
    settings = _settings({each: Setting("", "") for each in names}, only_prefixed=False)
    return "" if _IMAGE.search(image) or settings.keys() & _OF_NODES else image


def _not_read(name: str, service: Mapping[str, Any], environment: Mapping[str, Setting]) -> Iterator[str]:
    """What else may set this node up."""
    for each in service.get("volumes") or []:
        volume = f"{each.get('source')}:{each.get('target')}" if isinstance(each, dict) else str(each)
        if re.search(r"\.properties\b|/config(?::|$)", volume):
            yield f"service {name}: volume {volume}: settings in it are not read"
    if "--override" in _words(service.get("entrypoint"), service.get("command")):
        yield f"service {name}: --override in its command: those settings are not read"
    if (service.get("deploy") or {}).get("mode") == "global":
        yield f"service {name}: deploy.mode global: as many as there are machines; it counts as one"
    for variable in ("KAFKA_CREATE_TOPICS", "CREATE_TOPICS"):
        if variable in environment:
            yield f"service {name}: {variable}={environment[variable].value}: topics of an image's own script"


def _count(document: Document, name: str, service: Mapping[str, Any], variables: Variables) -> int:
    deploy = service.get("deploy") or {}
    at = ("deploy", "replicas") if "replicas" in deploy else ("scale",)
    place = document.place("services", name, *at)
    count = variables.expanded(str(deploy.get("replicas", service.get("scale", 1))), place)
    if not re.fullmatch("[0-9]{1,9}", count):
        raise UsageError(f"{place}: service {name}: {count!r} is not a number of containers")
    return int(count)


def _merged(
    document: Document, name: str, variables: Variables, trail: tuple[tuple[str, str], ...] = ()
) -> tuple[dict[str, Any], dict[str, Setting]]:
    """A service with what it extends, and its environment. Raises UsageError."""
    service = document.mapping("services", name)
    base: dict[str, Any] = {}
    environment: dict[str, Setting] = {}
    if extends := service.get("extends"):
        place = document.place("services", name, "extends")
        other, wanted = _extended(document, extends, place, variables)
        here = (document.source.name, name)
        if here in trail:
            raise UsageError(f"{place}: service {name} extends itself")
        its = variables if other is document else Variables(Path(other.source.name))
        base, environment = _merged(other, wanted, its, (*trail, here))
    return {**base, **service}, {
        **environment,
        **variables.of_files(document, name),
        **variables.of_service(document, name),
    }


def _extended(document: Document, extends: Any, place: str, variables: Variables) -> tuple[Document, str]:
    """The document and the name of the service that another one extends."""
    entry = extends if isinstance(extends, dict) else {"service": extends}
    other = document
    if file := entry.get("file"):
        path = Path(document.source.name).parent / variables.expanded(str(file), place)
        try:
            other = next((each for each in documents_of(path) if is_compose(each)), document)
        except UsageError as error:
            raise UsageError(f"{place}: extends: {error}") from None
        if other is document:
            raise UsageError(f"{place}: extends: {path} has no services")
    wanted = str(entry.get("service"))
    if wanted not in other.data["services"]:
        raise UsageError(f"{place}: extends: {other.source.name} has no service {wanted}")
    return other, wanted


def is_compose(document: Document) -> bool:
    """Whether a document has services, as Compose files have."""
    return isinstance(document.data.get("services"), dict)


def _settings(environment: Mapping[str, Setting], only_prefixed: bool) -> dict[str, Setting]:
    """Broker settings in a container's environment: KAFKA_MIN_INSYNC_REPLICAS, or KAFKA_CFG_... of Bitnami's
    images, where the others belong to the image's scripts (`only_prefixed`).
    """
    settings = {}
    for name, value in environment.items():
        if name == "ZOOKEEPER_CONNECT":  # of Debezium's image
            settings["zookeeper.connect"] = value
        variable = name.removeprefix("KAFKA_CFG_")
        if variable == name and (only_prefixed or not variable.startswith("KAFKA_")):
            continue
        words = (
            variable.removeprefix("KAFKA_").lower().replace("___", "-").replace("__", "\0").replace("_", ".")
        )
        if not words.startswith(_NOT_SETTINGS):
            settings[words.replace("\0", "_")] = value
    return settings


def _kafka_version(image: str, tag: str) -> str | None:
    """The version of Kafka in an image: Confluent's 7.6.1 has Kafka 3.6, and 8.1 has 4.1."""
    if "debezium/" in image:
        return None  # its tags are Debezium's versions
    if release := _RED_HATS_IMAGE.search(image):
        return f"{release[1]}.{release[2]}.0"
    if named := _STRIMZI_IMAGE.search(tag) or _WURSTMEISTERS_TAG.match(tag):
        return named[1]
    if re.search(r"(?:^|/)(?:cp-|confluent-local)", image):
        version = _CONFLUENT.match(tag)
        major, first = _KAFKAS_OF_CONFLUENT.get(int(version[1]) if version else 0, (0, 0))
        return f"{major}.{first + int(version[2])}.0" if version and major else None
    exact = _VERSION.match(tag)
    return exact[0] if exact else None


def _words(*parts: Any) -> str:
    return " ".join(each for part in parts for each in _strings(part))


def _strings(value: Any) -> list[str]:
    return [str(each) for each in (value if isinstance(value, list) else [value] if value else [])]
