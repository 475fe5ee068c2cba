"""The settings that a version of Kafka knows, from its own jars (java/ConfigNames.java), once per version.

Kafka ignores what it does not know, at most with a warning in a log: a misspelled min.insync.replicas is one
replica. Not here: which settings a scenario has (runner/setting_check.py).
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from kaput.cache import cache_dir
from kaput.cluster.cds import find_archive
from kaput.cluster.distribution import Distribution, java_command
from kaput.errors import DistributionError
from kaput.java import Java
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
# Settings of one listener or of a plugin, which Kafka passes on without knowing their names; and those of
# ZooKeeper mode in a scenario for both modes.
_FREE = ("listener.name.", "sasl.server.", "metrics.", "rsm.config.", "rlmm.config.", "kaput.", "zookeeper.")


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
        part = kept.with_name(f"{kept.name}.{os.getpid()}.part")
        part.write_text(json.dumps(names))
        part.replace(kept)
    return {kind: frozenset(each) for kind, each in names.items()}


def _ask(distribution: Distribution, java: Java) -> dict[str, list[str]]:
    with_ours = replace(distribution, jars=(*distribution.jars, _CLASSES))
    command = java_command(java, with_ours, "ConfigNames", [], archive=find_archive(distribution, java))
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        late = f"Java did not print the settings of Kafka {distribution.version} within {_TIMEOUT_S} s"
        raise DistributionError(f"{late}: is this machine too busy? try again") from None
    names: dict[str, list[str]] = {}
    for kind, _, name in (line.partition(" ") for line in done.stdout.splitlines()):
        if kind.isalpha():  # not a warning of Java's or Kafka's
            names.setdefault(kind, []).append(name)
    if done.returncode or not names.keys() >= _ALWAYS:
        last = (done.stderr.strip().splitlines() or ["no error output"])[-1]
        raise DistributionError(f"the settings of Kafka {distribution.version} cannot be read: {last}")
    return names


def unknown_settings(
    place: str, config: Config, kind: str, distribution: Distribution, java: Java
) -> Iterator[str]:
    """A sentence for each unknown setting, written at `place`; of the kind `dynamic`, for each that a running
    broker does not take. Raises DistributionError.
    """
    by_kind = setting_names(distribution, java) if config else {}
    if kind not in by_kind:
        return  # none, or a kind that came later
    names = by_kind[kind] | (_THROTTLES if kind == DYNAMIC else set())
    for name in config:
        if name in names or name.startswith(_FREE):
            continue
        if kind == DYNAMIC and name in by_kind["broker"]:
            yield f"{place}: {name} can't change while a broker runs; write it under the cluster's config"
            continue
        what = f"no {'broker' if kind == DYNAMIC else kind} setting of Kafka {distribution.version}"
        yield f"{unknown_setting(place, name, what, nearest(name, names))} {PLUGINS}"


def unknown_setting(place: str, name: str, what: str, near: list[str]) -> str:
    """`PLACE: NAME is WHAT; did you mean NEAR?`"""
    return f"{place}: {name} is {what}; {f'did you mean {near[0]}?' if near else 'leave it out'}"
