"""Admin requests to brokers, all on kafka-python: topics, groups, the user's own clusters, reassignments.

`Admin` and `PartitionState` are what other packages need most.
"""

from kaput.cluster.admin.cluster_admin import Admin
from kaput.cluster.admin.partition_states import PartitionState

__all__ = ["Admin", "PartitionState"]
