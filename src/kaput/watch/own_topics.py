"""Creates kaput's own topics in the user's cluster. They are never deleted, since others read them."""

from __future__ import annotations

from kaput.cluster.admin import Admin
from kaput.cluster.existing_cluster import ExistingCluster
from kaput.errors import LabError
from kaput.scenario.model import Topic

_REPLICAS = 3
_DAY_MS = 86_400_000


def create_if_missing(cluster: ExistingCluster, name: str) -> None:
    """Creates the topic unless it exists: one partition, up to 3 replicas, retention of a day. Raises
    LabError with Kafka's reason.
    """
    with Admin(cluster) as admin:
        if admin.ids([name]):
            return
        replicas = min(_REPLICAS, len(cluster.broker_endpoints))
        topic = Topic.model_validate(
            {"name": name, "replication-factor": replicas, "config": {"retention.ms": _DAY_MS}}
        )
        made, refused = admin.make_topics([topic])
        if not made and not admin.ids([name]):  # somebody else was first
            raise LabError(refused[0])
