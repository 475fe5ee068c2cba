"""Whether a client can sign in to a cluster, and which resources its principal cannot see.

Kafka does not refuse to list topics and groups: it leaves them out, and a cluster without any looks healthy.
"""

from __future__ import annotations

from collections.abc import Sequence

from kaput.cluster.access import OPEN, Access
from kaput.cluster.admin.existing_requests import api_versions
from kaput.cluster.admin.requests import metadata
from kaput.cluster.wire import AccessRefused, Endpoint, Unanswered, WrongProtocol, ask
from kaput.errors import LabError

_ANSWER_S = 10.0
_SUPPORTED_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def check_access(servers: str, access: Access) -> None:
    """Signs in to one of the servers. Client libraries would mistake a refusal, or another protocol, for a
    broker that is down, and retry until they time out.

    Raises AccessRefused and WrongProtocol. Servers that cannot be reached are left to the client library.
    """
    for server in servers.split(","):
        host, _, port = server.strip().rpartition(":")
        if not port.isdigit() or access.mechanism not in (None, *_SUPPORTED_MECHANISMS):
            return
        endpoint = Endpoint(host, int(port), access)
        try:
            ask(endpoint, metadata(), _ANSWER_S)
        except AccessRefused:
            raise
        except Unanswered:
            _check_protocol(endpoint)
            continue
        return


def _check_protocol(endpoint: Endpoint) -> None:
    """Raises WrongProtocol if a node answers, but only with another security protocol."""
    access = endpoint.access
    if access.mechanism is None and _answers(endpoint):
        raise WrongProtocol(endpoint, "requires clients to authenticate (SASL)")
    if access.tls is not None and _answers(endpoint._replace(access=OPEN)):
        raise WrongProtocol(endpoint, "does not use TLS")


def _answers(endpoint: Endpoint) -> bool:
    """Whether a node answers an ApiVersions request, which needs no sign-in."""
    try:
        ask(endpoint, api_versions(), _ANSWER_S)
    except Unanswered:
        return False
    return True


def hidden_resources(principal: str, rights: Sequence[str] | None, sees_topics: bool) -> str | None:
    """A sentence about resources that may exist and are not listed; None if all are listed.

    `rights`: the cluster operations that the brokers allow; None if unknown. Raises LabError if the principal
    sees nothing at all.
    """
    if rights is None or "DESCRIBE" in rights:
        return None
    why = f"{principal} is not allowed to Describe the cluster"
    if not sees_topics:
        raise LabError(f"{why} or any of its topics: there is nothing to check")
    return f"groups, and topics this user may not describe: {why}"
