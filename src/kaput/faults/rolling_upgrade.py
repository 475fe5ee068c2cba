"""rolling-upgrade: every node is upgraded to another version of Kafka, one after the other, under load.

Controllers first, then brokers; meanwhile the cluster has two versions. At the end metadata.version is
raised to the highest that all support, as in Kafka's instructions; other features stay.
"""

from __future__ import annotations

from kaput.cluster.admin.resources import METADATA_VERSION
from kaput.cluster.node import Node
from kaput.faults.fault import ClusterChange, Effect, Scene
from kaput.faults.rolling_restart import RollingRestart
from kaput.scenario.fault_kinds import RollingUpgradeOptions


class RollingUpgrade(ClusterChange):
    """One injection of it.

    Proof: each process has ended after SIGTERM; after its next start its log showed the new version, and the
    cluster was whole again; at the end a broker reported the new metadata.version.
    """

    name = "rolling-upgrade"
    options: RollingUpgradeOptions

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._restart = _UpgradingRestart(scene)
        self._nodes = sorted(scene.nodes.values(), key=lambda node: (node.role != "controller", node.id))

    def restarted(self) -> list[int]:
        """Every node."""
        return [node.id for node in self._nodes]

    def abandon(self) -> None:
        """Ends all waits: the run is ending."""
        super().abandon()
        self._restart.abandon()

    def inject(self, hit: None) -> Effect:
        """Stops the first node; the others follow in the background. Raises LabError."""
        return self._restart.inject(self._nodes)

    def heal(self, hit: None, effect: Effect) -> tuple[int | None, Effect]:
        """Waits until all nodes are upgraded; undoes nothing. Raises LabError."""
        return self._restart.heal(self._nodes, effect)


class _UpgradingRestart(RollingRestart):
    options: RollingUpgradeOptions

    def before_start(self, node: Node) -> None:
        self.scene.upgrade(node.id, self.options.kafka)

    def node_lacks(self, node: Node) -> str:
        details = super().node_lacks(node)
        if not details and node.version != self.options.kafka:
            return f"{node.title} reports Kafka {node.version}"
        return details

    def after_all_nodes(self) -> list[str]:
        before, now = self.scene.admin.raise_feature(METADATA_VERSION)
        return [f"all are Kafka {self.options.kafka}; {METADATA_VERSION} {before} has become {now}"]
