"""kafka-python's own admin client, for requests that need no special care about nodes that are down."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kaput.cluster.access import Access
from kaput.cluster.admin.authorization import check_access
from kaput.errors import LabError

with warnings.catch_warnings():  # see cluster/protocol.py
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.admin import KafkaAdminClient
    from kafka.errors import KafkaError

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
        raise LabError(f"{servers} cannot be reached: {one_line(error)}") from None
    try:
        yield admin
    finally:
        admin.close()


def one_line(error: Exception) -> str:
    """The first line of an exception, without the request and its secrets."""
    return (str(error).splitlines() or [""])[0][:200] or type(error).__name__
