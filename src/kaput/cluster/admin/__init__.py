"""Admin requests to brokers, all on kafka-python: topics, groups, the user's own clusters, reassignments.

Two kinds of clients: `Admin` asks each node itself, with deadlines, also while nodes are down or cut off
(runs, faults); `reassignment_client` (reassignments.py) is for healthy clusters (doctor, reassign).
"""

from kaput.cluster.admin.cluster_admin import Admin, PartitionState

__all__ = ["Admin", "PartitionState"]
