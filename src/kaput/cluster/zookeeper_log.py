from pathlib import Path
from kaput.cluster.events import ClusterEvent


def read_cluster_events(folders: dict[int, Path]) -> list[ClusterEvent]:
    return []
