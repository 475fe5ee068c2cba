"""Whether a cluster lets us in, and what a principal cannot see of it.

Kafka does not refuse to list topics and groups, it leaves them out; and a cluster without any looks well.
"""

from __future__ import annotations

from collections.abc import Sequence

from kaput.cluster.access import Access
from kaput.cluster.requests import metadata
from kaput.cluster.wire import Endpoint, Refused, Unanswered, ask
from kaput.errors import LabError

_ANSWER_S = 10.0
_KNOWN = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def knock(servers: str, access: Access) -> None:
    """Signs in at one of the servers, since kafka-python takes a refusal for a broker that is away, and tries
    until its time is up. Raises Refused; who cannot be asked is for others to say.
    """
    if access.tls is None and access.mechanism not in _KNOWN:
        return
    for server in servers.split(","):
        host, _, port = server.strip().rpartition(":")
        if not port.isdigit() or access.mechanism not in (None, *_KNOWN):
            return
        try:
            ask(Endpoint(host, int(port), access), metadata(), _ANSWER_S)
        except Refused:
            raise
        except Unanswered:
            continue
        return


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
