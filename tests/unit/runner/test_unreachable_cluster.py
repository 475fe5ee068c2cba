"""Whether a cluster can be reached is not for one of its brokers to say."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kaput.cluster.access import OPEN
from kaput.runner.run_cluster import RunCluster
from unit.cluster.test_check_access import mute, node, tls_alone


def cluster(*servers: str) -> RunCluster:
    kafka: Any = SimpleNamespace(bootstrap_servers=",".join(servers), access=lambda: OPEN)
    return RunCluster("", kafka, None)  # type: ignore[arg-type]


def test_next_broker_is_asked_after_one_that_refuses_access() -> None:
    """The last one that was asked has the last word."""
    with node(tls_alone) as refuses, node(mute) as hangs_up:
        assert cluster(refuses, hangs_up).why_unreachable() == f"{hangs_up} closed the connection"
        assert "requires TLS" in str(cluster(hangs_up, refuses).why_unreachable())
