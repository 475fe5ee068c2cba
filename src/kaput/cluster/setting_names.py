"""The settings that a version of Kafka knows, and the values that it takes, from its own jars
(java/ConfigNames.java), once per version.

Kafka ignores what it does not know, at most with a warning in a log: a misspelled min.insync.replicas is one
replica. Not here: which settings a scenario has (runner/setting_check.py).
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from kaput.cache import cache_dir
from kaput.cluster.cds import find_archive
from kaput.cluster.distribution import Distribution, cached, java_command
from kaput.core import NEWEST_KAFKA, setting_text
from kaput.errors import DistributionError
from kaput.evidence.folder import replace_text
from kaput.java import Java
from kaput.scenario.block import Found
from kaput.scenario.model import Config
from kaput.scenario.nearest import nearest

_CLASSES = Path(__file__).parent / "java"
_TIMEOUT_S = 60
DYNAMIC = "dynamic"
_ALWAYS = {"broker", "topic", DYNAMIC}  # kinds of each version that kaput runs
PLUGINS = "(--allow-unknown: it is a plugin's)"
# Of running brokers; Kafka 3 does not list them, and no server.properties has them.
_THROTTLES = {
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
}
_AUTHORIZER = {"allow.everyone.if.no.acl.found", "super.users"}  # Kafka's own, which reads them by itself
# Settings of one listener or of a plugin, which Kafka passes on without knowing their names.
_FREE = ("listener.name.", "sasl.server.", "metrics.", "rsm.config.", "rlmm.config.", "kaput.")
# Clients of a mirror, and what Kafka Connect passes on to its plugins.
_SIDES = ("source.", "target.", "source.cluster.", "target.cluster.", "")
_ROLES = (
    *(
        f"{side}{role}.{more}"
        for side in _SIDES
        for role in ("producer", "consumer", "admin")
        for more in ("override.", "")
    ),
    "source.cluster.", "target.cluster.",
)  # fmt: skip
_OF_CONNECT = (
    "config.providers.", "transforms.", "predicates.", "metrics.", "topic.creation.", "listeners.",
    "key.converter.", "value.converter.", "header.converter.", "replication.policy.",
)  # fmt: skip
# What Kafka 3.9 knows, and 4 does not.
_LAST_3 = "3.9"
_ONLY_3: Mapping[str, Set[str]] = {
    "broker": {
        "alter.config.policy.kraft.compatibility.enable", "auto.include.jmx.reporter",
        "broker.id.generation.enable", "control.plane.listener.name", "controlled.shutdown.max.retries",
        "controlled.shutdown.retry.backoff.ms", "delegation.token.master.key",
        "eligible.leader.replicas.enable", "group.coordinator.new.enable", "group.share.enable",
        "group.share.max.groups", "inter.broker.protocol.version", "leader.imbalance.per.broker.percentage",
        "log.message.downconversion.enable", "log.message.format.version",
        "log.message.timestamp.difference.max.ms", "metadata.log.segment.min.bytes",
        "offsets.commit.required.acks", "password.encoder.cipher.algorithm", "password.encoder.iterations",
        "password.encoder.key.length", "password.encoder.keyfactory.algorithm",
        "password.encoder.old.secret", "password.encoder.secret", "reserved.broker.max.id",
        "zookeeper.clientCnxnSocket", "zookeeper.connect", "zookeeper.connection.timeout.ms",
        "zookeeper.max.in.flight.requests", "zookeeper.metadata.migration.enable",
        "zookeeper.metadata.migration.min.batch.size", "zookeeper.session.timeout.ms", "zookeeper.set.acl",
        "zookeeper.ssl.cipher.suites", "zookeeper.ssl.client.enable", "zookeeper.ssl.crl.enable",
        "zookeeper.ssl.enabled.protocols", "zookeeper.ssl.endpoint.identification.algorithm",
        "zookeeper.ssl.keystore.location", "zookeeper.ssl.keystore.password", "zookeeper.ssl.keystore.type",
        "zookeeper.ssl.ocsp.enable", "zookeeper.ssl.protocol", "zookeeper.ssl.truststore.location",
        "zookeeper.ssl.truststore.password", "zookeeper.ssl.truststore.type",
    },
    "topic": {
        "message.downconversion.enable", "message.format.version", "message.timestamp.difference.max.ms",
    },
    "producer": {"auto.include.jmx.reporter"},
    "consumer": {"auto.include.jmx.reporter", "internal.leave.group.on.close"},
}  # fmt: skip
_ZOOKEEPER = frozenset(name for name in _ONLY_3["broker"] if name.startswith("zookeeper."))
_NEAR = 0.75  # names less alike than this are not proposed
_OF_PROVIDERS = "${"  # a value that the broker looks up elsewhere
_SECRET = re.compile("password|secret|jaas|ssl.*key")  # free text, and kept nowhere


def setting_names(distribution: Distribution, java: Java) -> Mapping[str, frozenset[str]]:
    """Names by kind, if the version has it: broker, topic, group, ...; dynamic: what a running broker takes.
    Raises DistributionError.
    """
    kept = cache_dir("settings") / f"{distribution.id}.json"
    names = {}
    with suppress(OSError, ValueError):
        names = json.loads(kept.read_text())
    if not names.keys() >= _ALWAYS:  # none yet, or kept by an earlier kaput
        names = _ask(distribution, java)
        _keep(kept, names)
    return {kind: frozenset(each) for kind, each in names.items()}


def _ask(distribution: Distribution, java: Java) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for kind, _, name in (line.partition(" ") for line in _print(distribution, java)):
        if kind.isalpha():  # not a warning of Java's or Kafka's
            names.setdefault(kind, []).append(name)
    if not names.keys() >= _ALWAYS:
        raise DistributionError(f"the settings of Kafka {distribution.version} cannot be read")
    return names


def _print(distribution: Distribution, java: Java, *arguments: str, given: str = "") -> list[str]:
    """The lines that java/ConfigNames.java prints. Raises DistributionError."""
    with_ours = replace(distribution, jars=(*distribution.jars, _CLASSES))
    command = java_command(
        java, with_ours, "ConfigNames", list(arguments), archive=find_archive(distribution, java)
    )
    try:
        done = subprocess.run(
            command,
            input=given,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        late = f"Java did not print the settings of Kafka {distribution.version} within {_TIMEOUT_S} s"
        raise DistributionError(f"{late}: is this machine too busy? try again") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no error output"])[-1]
        raise DistributionError(f"the settings of Kafka {distribution.version} cannot be read: {last}")
    return done.stdout.splitlines()


def wrong_settings(
    config: Config, kind: str, distribution: Distribution, java: Java, *, allow_unknown: bool = False
) -> Found:
    """The name of each setting that is unknown or has a value that Kafka refuses, and a sentence; of the kind
    `dynamic`, also of each that a running broker does not take. Raises DistributionError.
    """
    by_kind = setting_names(distribution, java) if config else {}
    if kind not in by_kind:
        return  # none, or a kind that came later
    names = _readable(kind, by_kind)
    for name in config:
        if name in names or name.startswith(_FREE):
            continue
        if kind == DYNAMIC and name in by_kind["broker"]:
            yield (name,), "this can't change while a broker runs; write it under the cluster's config"
        elif not allow_unknown:
            yield (name,), _unknown(name, kind, names, distribution, java)
    known = {name: value for name, value in config.items() if name in names}
    for name, why in _refused_values(kind, known, distribution, java):
        yield (name,), f"Kafka {distribution.version} refuses {setting_text(config[name])!r}: {why}"


def _readable(kind: str, by_kind: Mapping[str, frozenset[str]]) -> Set[str]:
    """The names of a kind that something reads; a scenario for both modes has settings of either."""
    more = {DYNAMIC: _THROTTLES, "broker": _ZOOKEEPER | _AUTHORIZER}
    return by_kind[kind] | more.get(kind, set())


def wrong_mirror_settings(
    config: Config,
    ends: tuple[str, str],
    distribution: Distribution,
    java: Java,
    *,
    allow_unknown: bool = False,
) -> Found:
    """The same of a mirror's settings, with MirrorMaker's jars. `ends`: its source and target, which may come
    before a name, as in `dc1->dc2.tasks.max` or `dc2.producer.linger.ms`. Raises DistributionError.
    """
    by_kind = setting_names(distribution, java) if config else {}
    own = by_kind.get("mirror", frozenset())
    if not own:
        return  # an installation without MirrorMaker
    source, target = ends
    clients = by_kind["producer"] | by_kind["consumer"]
    values: list[tuple[str, _Value]] = []
    for name in config:
        before, bare = _after(name, (f"{source}->{target}.", f"{source}.", f"{target}."))
        role, rest = _after(bare, _ROLES)
        kind = next((kind for kind in ("producer", "consumer") if kind in role), "" if role else "mirror")
        names = own | clients if kind == "mirror" else by_kind.get(kind, clients)
        if rest in names:
            values += [(name, one) for one in _values(kind or "consumer", {rest: config[name]})]
        elif not (allow_unknown or bare.startswith(_OF_CONNECT)):
            near = [f"{before}{role}{each}" for each in nearest(rest, names, cutoff=_NEAR)]
            yield (
                (name,),
                f"{unknown_setting(f'setting of MirrorMaker {distribution.version}', near)} {PLUGINS}",
            )
    # All at once, so that there is no JVM for each of them.
    answers = _judged([one for _, one in values], distribution, java)
    for name, one in values:
        if why := answers[one]:
            yield (name,), f"MirrorMaker {distribution.version} refuses {one[2]!r}: {why}"


def _after(name: str, prefixes: Iterable[str]) -> tuple[str, str]:
    """The first of these prefixes that the name has, else nothing; and the rest of it."""
    found = next((prefix for prefix in prefixes if name.startswith(prefix)), "")
    return found, name.removeprefix(found)


def foreign_names(config: Config, distribution: Distribution, java: Java) -> list[str]:
    """The names that are no setting of brokers of any version, nor nearly one. Raises DistributionError."""
    names = _readable("broker", setting_names(distribution, java))
    return [
        name
        for name in config
        if not (name in names or name.startswith(_FREE) or _version_with(name, "broker", distribution, java))
        and not _alike(name, names, _kinds_of(name, distribution, java))
    ]


def _unknown(name: str, kind: str, names: Set[str], distribution: Distribution, java: Java) -> str:
    """A sentence about a name that is none of the names of this kind."""
    version, word = distribution.version, "broker" if kind == DYNAMIC else kind
    if other := _version_with(name, word, distribution, java):
        return f"Kafka {version} does not know this {word} setting of Kafka {other}; leave it out"
    of_others = _kinds_of(name, distribution, java)
    more = f" (it is one of a {of_others[0]})" if of_others else f" {PLUGINS}"
    return f"{unknown_setting(f'{word} setting of Kafka {version}', _alike(name, names, of_others))}{more}"


def _version_with(name: str, kind: str, distribution: Distribution, java: Java) -> str | None:
    """Another version of Kafka that has this setting, if one is known here."""
    if distribution.major > int(_LAST_3[0]) and name in _ONLY_3.get(kind, ()):
        return _LAST_3
    newest = cached(NEWEST_KAFKA) if distribution.version != NEWEST_KAFKA else None
    return NEWEST_KAFKA if newest and name in setting_names(newest, java).get(kind, ()) else None


def _kinds_of(name: str, distribution: Distribution, java: Java) -> list[str]:
    return [kind for kind, known in setting_names(distribution, java).items() if name in known]


def _alike(name: str, names: Set[str], of_others: Sequence[str]) -> list[str]:
    """Those that may be meant: log.retention.ms of a broker is retention.ms of a topic."""
    same = [each for each in names if name in (each.removeprefix("log."), f"log.{each}")] if of_others else []
    return same or nearest(name, names, cutoff=_NEAR)


def unknown_setting(what: str, near: list[str]) -> str:
    """`no WHAT; did you mean NEAR?`"""
    return f"no {what}; {f'did you mean {near[0]}?' if near else 'leave it out'}"


def judge_values(configs: Iterable[tuple[str, Config]], distribution: Distribution, java: Java) -> None:
    """Has Kafka's own definitions judge all these settings, each with its kind, at once: `wrong_settings`
    knows the answers then, without a JVM for each kind and scenario. Raises DistributionError.
    """
    by_kind = setting_names(distribution, java)
    values = [
        value
        for kind, config in configs
        for value in _values(kind, config)
        if kind in by_kind and value[1] in _readable(kind, by_kind)
    ]
    _judged(values, distribution, java)


def _refused_values(
    kind: str, config: Config, distribution: Distribution, java: Java
) -> list[tuple[str, str]]:
    """The names whose values Kafka's own definitions refuse, and why."""
    values = _values(kind, config)
    answers = _judged(values, distribution, java)
    return [(value[1], why) for value in values if (why := answers[value])]


_Value = tuple[str, str, str]  # kind, name, text


def _values(kind: str, config: Config) -> list[_Value]:
    """The settings whose values the definitions of their kind can judge."""
    of = "broker" if kind == DYNAMIC else kind
    texts = {name: setting_text(value) for name, value in config.items() if not _SECRET.search(name)}
    return [(of, n, text) for n, text in texts.items() if _OF_PROVIDERS not in text and "\0" not in text]


def _judged(values: list[_Value], distribution: Distribution, java: Java) -> dict[_Value, str]:
    """Why each of these values is refused; empty if it is not. Each value is asked about once."""
    keys = {
        (kind, name, text): hashlib.sha256(f"{kind} {name}={text}".encode()).hexdigest()
        for kind, name, text in values
    }
    judge = hashlib.sha256((_CLASSES / "ConfigNames.class").read_bytes()).hexdigest()[:8]
    kept = cache_dir("settings") / f"{distribution.id}-values-{judge}.json"
    known: dict[str, str] = {}
    with suppress(OSError, ValueError):
        known = json.loads(kept.read_text())
    if asked := [value for value, key in keys.items() if key not in known]:
        given = "".join(f"{part}\0" for value in asked for part in value)
        answers = [line.split(" ", 2) for line in _print(distribution, java, "values", given=given)]
        if ["checked", str(len(asked))] not in answers:
            raise DistributionError(
                f"the values of settings of Kafka {distribution.version} were not checked"
            )
        known |= {keys[value]: "" for value in asked}
        for answer in answers:
            if answer[0] == "refused":
                value, why = asked[int(answer[1])], answer[2]
                known[keys[value]] = why.partition(f" for configuration {value[1]}: ")[2] or why
        _keep(kept, known)
    return {value: known[key] for value, key in keys.items()}


def _keep(path: Path, answers: object) -> None:
    """Without a cache each is asked anew."""
    with suppress(OSError):
        replace_text(path, json.dumps(answers))
