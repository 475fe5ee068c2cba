"""rolling-upgrade: every node is upgraded to another version of Kafka, one after the other, under load.

Controllers first, then brokers; meanwhile the cluster is of two versions. When all have had their turn, the
metadata.version is raised to what they all know, as Kafka's own instructions have it; other features stay.
"""

from __future__ import annotations

from kaput.cluster.features import METADATA_VERSION
from kaput.cluster.node import Node
from kaput.faults.fault import Effect, Scene
from kaput.faults.permanent import PermanentChange
from kaput.faults.rolling_restart import RollingRestart


class RollingUpgrade(PermanentChange):
    """Proof: each process ended after SIGTERM; after its restart its log names the new version, and the
    cluster was whole again; at the end a broker reports the new metadata.version.
    """

    name = "rolling-upgrade"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._turns = _Turns(scene)
        self._nodes = sorted(scene.nodes.values(), key=lambda node: (node.role != "controller", node.id))

    @property
    def stops(self) -> list[int]:
        """Every node."""
        return [node.id for node in self._nodes]

    def abandon(self) -> None:
        """Nobody else has a turn."""
        super().abandon()
        self._turns.abandon()

    def inject(self) -> Effect:
        """Stops the first one; the others follow while the load goes on. Raises LabError."""
        return self._turns.inject(self._nodes)

    def heal(self, effect: Effect) -> tuple[int | None, Effect]:
        """Waits until all have had their turn; nothing is undone. Raises LabError."""
        return self._turns.heal(self._nodes, effect)


class _Turns(RollingRestart):
    def before_start(self, node: Node) -> None:
        self.scene.upgrade(node.id, self.scene.options.kafka)

    def lacks_itself(self, node: Node) -> str:
        details = super().lacks_itself(node)
        if not details and node.version != self.scene.options.kafka:
            return f"{node.title} says that it is Kafka {node.version}"
        return details

    def at_last(self) -> list[str]:
        before, now = self.scene.admin.raise_feature(METADATA_VERSION)
        return [f"all are Kafka {self.scene.options.kafka}; {METADATA_VERSION} {before} has become {now}"]
