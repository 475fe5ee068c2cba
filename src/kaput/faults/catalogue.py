"""The class of each fault, and its description for docs/FAULTS.md and `kaput fault kinds`.

A fault is the module of its name in this package, and an entry in scenario/fault_kinds.py. Descriptions come
from the docstrings of the module and of the class.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from kaput.faults.fault import Fault
from kaput.scenario.cluster import Cluster
from kaput.scenario.fault_kinds import COMMAND, KINDS, NETWORK, FaultKind, defaults_of
from kaput.scenario.targets import CLUSTER, MEMBERS, MIRROR, NODES, PRODUCER, STORE, TOPIC
from kaput.scenario.vocabulary import NOOP


@cache
def fault_class(name: str, hits: str = NODES) -> type[Fault[Any]]:
    """The class of a fault on such a target: all but members are nodes to it, unless it says otherwise."""
    module = import_module(f"kaput.faults.{name.replace('-', '_')}")
    own = {
        each.on: each
        for each in vars(module).values()
        if isinstance(each, type)
        and issubclass(each, Fault)
        and each.__module__ == module.__name__
        and getattr(each, "name", None) == name
    }
    return own.get(hits) or own[NODES]


def kernel_needs(fault: str) -> tuple[str, ...]:
    return fault_class(fault).needs if NODES in KINDS[fault].hits else ()


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
    return [
        Description(kind.name, hits, *_described(kind, on), defaults_of(kind.name), on == NODES)
        for kind, on, hits in _every_class()
    ]


def _every_class() -> Iterator[tuple[FaultKind, str, str]]:
    """Kind, what its class is for, and that in words."""
    for on, words in (
        (NODES, ""),
        (MEMBERS, "members of groups"),
        (TOPIC, "a topic"),
        (CLUSTER, "the cluster"),
    ):
        for kind in KINDS.values():
            if on in kind.hits and kind.name != COMMAND:
                yield kind, on, words or _nodes(kind)
    yield KINDS[COMMAND], COMMAND, "brokers of your own cluster"


def possible_on(cluster: Cluster) -> list[Description]:
    """The faults that a page can inject into nodes of this cluster: not `noop`, and no settings."""
    needs = {kind.name: kind.needs for kind in KINDS.values()}
    return [
        each
        for each in descriptions()
        if each.on_nodes
        and each.fault != NOOP
        and "config" not in each.options
        and ((need := needs[each.fault]) is None or need.met(cluster))
    ]


def _nodes(kind: FaultKind) -> str:
    nodes = "brokers" if kind.of_disk or kind.by_request else "brokers, controllers, ZooKeeper nodes"
    others = ((PRODUCER, "a producer"), (STORE, "a store"), (MIRROR, "a mirror"))
    more = "".join(f", or {words}" for what, words in others if what in kind.hits)
    return nodes + more + (" (network: namespaces)" if kind.needs == NETWORK else "")


def _described(kind: FaultKind, on: str) -> tuple[str, str]:
    """Effect and proof of a fault."""
    of_fault = fault_class(kind.name, on)
    module = _paragraphs(inspect.getmodule(of_fault).__doc__)
    own = [text for text in _paragraphs(inspect.getdoc(of_fault)) if not text.startswith("Proof:")]
    effect = own if on == MEMBERS and own else [module[0].removeprefix(f"{kind.name}: "), *own]
    text = " ".join(effect)
    for each in of_fault.__mro__:
        docs = [each.__dict__.get("__doc__"), inspect.getmodule(each).__doc__]
        for proof in [paragraph for doc in docs for paragraph in _paragraphs(doc)]:
            if proof.startswith("Proof: "):
                return text[:1].upper() + text[1:], proof.removeprefix("Proof: ")
    return text[:1].upper() + text[1:], "nothing; it has no effect to confirm."


def _paragraphs(doc: str | None) -> list[str]:
    return [" ".join(text.split()) for text in inspect.cleandoc(doc or "").split("\n\n")]
