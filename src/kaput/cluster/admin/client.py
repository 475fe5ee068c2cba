"""kafka-python's own admin client, for requests that need no special care about nodes that are down; before
it, whether the client can sign in, and which resources its principal cannot see.

Kafka does not refuse to list topics and groups: it leaves them out, and a cluster without any looks healthy.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kaput.cluster.access import OPEN, Access
from kaput.cluster.admin.requests import api_versions, metadata
from kaput.cluster.wire import AccessRefused, Endpoint, Unanswered, WrongProtocol, addresses, ask, unreachable
from kaput.errors import LabError

_ANSWER_S = 10.0
_SUPPORTED_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def check_access(servers: str, access: Access) -> None:
    """Signs in to one of the servers. Client libraries would mistake a refusal, or another protocol, for a
    broker that is down, and retry until they time out. Raises UsageError for what is not HOST:PORT,
    AccessRefused and WrongProtocol, LabError if none answers.
    """
    if access.mechanism not in (None, *_SUPPORTED_MECHANISMS):
        return
    why = ""
    for address in addresses(servers):
        endpoint = Endpoint(*address, access)
        try:
            ask(endpoint, metadata(), _ANSWER_S)
        except AccessRefused:
            raise
        except Unanswered as error:
            _check_protocol(endpoint)
            why = str(error)
        else:
            return
    raise unreachable(servers, why)


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
    """A sentence about resources that may exist and are not listed; None if all are listed. `rights`: the
    cluster operations that the brokers allow; None if unknown. Raises LabError if the principal sees nothing
    at all.
    """
    if rights is None or "DESCRIBE" in rights:
        return None
    why = f"{principal} is not allowed to Describe the cluster"
    if not sees_topics:
        raise LabError(f"{why} or any of its topics: there is nothing to check")
    return f"groups, and topics this user may not describe: {why}"


with warnings.catch_warnings():  # see cluster/protocol.py
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.admin import KafkaAdminClient
    from kafka.errors import KafkaConnectionError, KafkaError, KafkaTimeoutError, RequestTimedOutError

TIMEOUT_S = 30.0


@contextmanager
def admin_client(servers: str, access: Access) -> Iterator[Any]:
    """A KafkaAdminClient, closed after the block. Raises LabError if the cluster cannot be reached."""
    check_access(servers, access)
    try:
        admin = KafkaAdminClient(
            bootstrap_servers=servers.split(","),
            request_timeout_ms=int(TIMEOUT_S * 1000),
            **access.kafka_python(),
        )
    except (KafkaError, OSError, ValueError) as error:
        raise unreachable(servers, one_line(error)) from None
    try:
        yield admin
    finally:
        admin.close()


def one_line(error: Exception) -> str:
    """The first line of an exception, without the request and its secrets; or that there was no answer."""
    if isinstance(error, KafkaTimeoutError | RequestTimedOutError | KafkaConnectionError):
        return "no broker answered in time"
    return (str(error).splitlines() or [""])[0][:200] or type(error).__name__
