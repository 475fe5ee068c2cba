"""The other side of a network fault: the syntax of `from`.

Not here: whether clusters, brokers and mirrors exist (checks/steps.py), and resolving a word to nodes
(faults/peers.py).
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from kaput.scenario.nearest import nearest
from kaput.scenario.values import CLUSTER_NAME, MIRROR_NAME, any_of, without_group_names

_PEER = re.compile(r"controllers|zookeeper|brokers|clients|all-nodes|everybody|broker \d{1,6}")
_PEER_FORMS = ("controllers", "zookeeper", "brokers", "clients", "all-nodes", "everybody", "broker N")
# With several clusters: all of one, by its name alone or after a word, or the process of a mirror.
_OF_CLUSTERS = re.compile(f"(?:cluster )?(?P<cluster>{CLUSTER_NAME})|mirror (?P<mirror>{MIRROR_NAME})")


def party_of_clusters(word: str) -> tuple[str | None, str | None]:
    """The cluster or mirror that a word of `from` names; None for the words of single clusters."""
    match = None if _PEER.fullmatch(word) else _OF_CLUSTERS.fullmatch(word)
    return (match["cluster"], match["mirror"]) if match is not None else (None, None)


def is_word(name: str) -> bool:
    """Whether it is a keyword of `from`, and so cannot be the name of a cluster."""
    return name in _PEER_FORMS


def no_party(word: str) -> str:
    """The message for an invalid word of `from`; None if it is valid."""
    near = nearest(word.partition(" ")[0], _PEER_FORMS)
    return (
        f"{word!r} is not a party; {'did you mean' if near else 'write'} {any_of(near or list(_PEER_FORMS))}"
    )


def _check_peer(value: str) -> str:
    if _PEER.fullmatch(value) is not None:
        return value
    # The clusters of the scenario are not known here (checks/steps.py).
    if _OF_CLUSTERS.fullmatch(value) is not None and not nearest(value, _PEER_FORMS):
        return value
    raise ValueError(no_party(value))


def _one_or_more(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


_PEER_SCHEMA = {"type": "string", "pattern": f"^(?:{_PEER.pattern}|{without_group_names(_OF_CLUSTERS)})$"}
_Peer = Annotated[str, AfterValidator(_check_peer)]
Peers = Annotated[
    list[_Peer],
    BeforeValidator(_one_or_more),
    Field(min_length=1),
    WithJsonSchema(
        {"anyOf": [_PEER_SCHEMA, {"type": "array", "items": _PEER_SCHEMA, "minItems": 1}]}
        | {"examples": ["clients", ["brokers", "controllers"]]}
    ),
]
