"""Whether a cluster lets us in, and what a principal cannot see of it.

Kafka does not refuse to list topics and groups, it leaves them out; and a cluster without any looks well.
"""

from __future__ import annotations

from collections.abc import Sequence

from kaput.cluster.access import OPEN, Access
from kaput.cluster.existing_requests import api_versions
from kaput.cluster.requests import metadata
from kaput.cluster.wire import Endpoint, Refused, Unanswered, WrongProtocol, ask
from kaput.errors import LabError

_ANSWER_S = 10.0
_KNOWN = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def knock(servers: str, access: Access) -> None:
    """Signs in at one of the servers, since client libraries take a refusal, or a protocol unlike theirs,
    for a broker that is away, and try until their time is up.

    Raises Refused; who cannot be asked is for others to say.
    """
    for server in servers.split(","):
        host, _, port = server.strip().rpartition(":")
        if not port.isdigit() or access.mechanism not in (None, *_KNOWN):
            return
        endpoint = Endpoint(host, int(port), access)
        try:
            ask(endpoint, metadata(), _ANSWER_S)
        except Refused:
            raise
        except Unanswered:
            _check_protocol(endpoint)
            continue
        return


def _check_protocol(endpoint: Endpoint) -> None:
    """Raises WrongProtocol where a node that did not answer does so when it is asked otherwise."""
    access = endpoint.access
    if access.mechanism is None and _answers(endpoint):
        raise WrongProtocol(endpoint, "wants clients to sign in (SASL)")
    if access.tls is not None and _answers(endpoint._replace(access=OPEN)):
        raise WrongProtocol(endpoint, "speaks no TLS")


def _answers(endpoint: Endpoint) -> bool:
    """Whether it says which requests it knows: it does before anybody has signed in."""
    try:
        ask(endpoint, api_versions(), _ANSWER_S)
    except Unanswered:
        return False
    return True


def unseen(principal: str, rights: Sequence[str] | None, sees_topics: bool) -> str | None:
    """A sentence about what may be there and is not listed; None where everything is.

    rights: operations on the cluster that brokers say are allowed, None where they do not say. Raises
    LabError for a principal that sees nothing at all.
    """
    if rights is None or "DESCRIBE" in rights:
        return None
    why = f"{principal} is not allowed to Describe the cluster"
    if not sees_topics:
        raise LabError(f"{why}, nor any topic of it: there is nothing to look at")
    return f"groups, and topics of others: {why}"
