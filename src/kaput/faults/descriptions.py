"""Descriptions of all faults, from the docstrings of their classes and modules: docs/FAULTS.md, `kaput fault
kinds`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from kaput.faults.catalogue import CATALOGUE, CLUSTER_CATALOGUE, TOPIC_CATALOGUE
from kaput.faults.command import Command
from kaput.faults.members.catalogue import MEMBER_CATALOGUE
from kaput.scenario.cluster import Cluster
from kaput.scenario.options import (
    COMMANDS,
    DISK_FAULTS,
    EXT4_FAULTS,
    MIRROR_FAULTS,
    NETWORK_FAULTS,
    OPTIONS,
    PRODUCER_FAULTS,
    PROTOCOL_FAULTS,
    STORE_FAULTS,
)
from kaput.scenario.vocabulary import NOOP

_NODES = "brokers, controllers, ZooKeeper nodes"


class Description(NamedTuple):
    """A fault: what it hits and does, what confirms it; its options (None: no default); whether it is a fault
    on nodes.
    """

    fault: str
    hits: str
    effect: str
    proof: str
    options: dict[str, Any]
    on_nodes: bool = False


def descriptions() -> list[Description]:
    """All of them, faults on nodes first. A fault for several kinds of targets appears once for each."""
    found: list[tuple[str, type, str]] = [
        *((name, kind, _of_nodes(name)) for name, kind in CATALOGUE.items()),
        *((name, kind, "members of groups") for name, kind in MEMBER_CATALOGUE.items()),
        *((name, kind, "a topic") for name, kind in TOPIC_CATALOGUE.items()),
        *((name, kind, "the cluster") for name, kind in CLUSTER_CATALOGUE.items()),
        ("command", Command, "brokers of your own cluster"),
    ]
    return [
        Description(name, hits, *_described(name, kind), options_of(name), kind is CATALOGUE.get(name))
        for name, kind, hits in found
    ]


def possible_on(cluster: Cluster) -> list[Description]:
    """The faults that can be injected into nodes of this cluster, except `noop`."""
    needs = {
        **dict.fromkeys(NETWORK_FAULTS, cluster.network == "namespaces"),
        **dict.fromkeys(DISK_FAULTS, cluster.disk_mb is not None),
        **dict.fromkeys(EXT4_FAULTS, cluster.disk_fs == "ext4"),
        **dict.fromkeys(PROTOCOL_FAULTS, cluster.proxies != "none"),
        "clock-skew": cluster.faketime,
        "memory-pressure": cluster.memory_groups,
        NOOP: False,
    }
    return [each for each in descriptions() if each.on_nodes and needs.get(each.fault, True)]


def options_of(fault: str) -> dict[str, Any]:
    """The options that a fault takes, with their defaults."""
    commands = dict.fromkeys(COMMANDS) if fault == "command" else {}
    return {**OPTIONS.get(fault, {}), **commands}


def _of_nodes(fault: str) -> str:
    others = [(PRODUCER_FAULTS, "a producer"), (STORE_FAULTS, "a store"), (MIRROR_FAULTS, "a mirror")]
    extra = "".join(f", or {what}" for faults, what in others if fault in faults)
    needs = " (network: namespaces)" if fault in NETWORK_FAULTS else ""
    nodes = "brokers" if fault in DISK_FAULTS else _NODES
    return f"{nodes}{extra}{needs}"


def _described(fault: str, kind: type) -> tuple[str, str]:
    """Effect and proof of a fault."""
    own = _paragraphs(inspect.getdoc(kind))
    module = _paragraphs(inspect.getmodule(kind).__doc__)
    effect = [re.sub(r"^[a-z-]+( of members)?: ", "", module[0])] if module[0].startswith(fault) else []
    effect += [text for text in own if not text.startswith("Proof:")]
    for each in kind.__mro__:
        docs = [each.__dict__.get("__doc__"), inspect.getmodule(each).__doc__]
        for text in [text for doc in docs for text in _paragraphs(doc)]:
            if text.startswith("Proof: "):
                return _sentence(effect), text.removeprefix("Proof: ")
    return _sentence(effect), "nothing; it has no effect to confirm."


def _sentence(texts: Sequence[str]) -> str:
    text = " ".join(texts)
    return text[:1].upper() + text[1:]


def _paragraphs(doc: str | None) -> list[str]:
    return [" ".join(text.split()) for text in inspect.cleandoc(doc or "").split("\n\n")]
