"""log-dir-failure: a broker loses its second log directory, as if that file system were no longer there; at
the heal the directory is back, and the broker is restarted, since Kafka does not take it back otherwise.

The broker goes on with the first directory. Partitions in the lost one are led by other replicas, or have no
leader if there are none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kaput.cluster.node import Node
from kaput.core import plural
from kaput.faults.fault import Effect, NodeFault, Scene, ms, now_ns, start_again
from kaput.faults.stop import TIMEOUT_S

_NOTICED_S = 60.0  # the broker writes its checkpoints every 5 s


class LogDirFailure(NodeFault):
    """It counts from when the directory is moved away; the broker notices at its next checkpoint, within 5 s.

    Proof: the broker itself reports the directory as failed, with how many partitions it had there, and as
    intact again after the heal.
    """

    name = "log-dir-failure"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._hit: list[Node] = []

    def inject_into(self, alive: Sequence[Node], nodes: Sequence[Node]) -> Effect:
        """Moves the directories away, and waits until the brokers report it. Raises LabError."""
        began, details, failed = now_ns(), [], []
        for node in alive:
            directory = node.layout.second_data
            # Not what is being deleted, such as orders-0.UUID-delete.
            count = sum(re.fullmatch(r".+-\d+", each.name) is not None for each in directory.iterdir())
            self._hit.append(node)
            directory.rename(node.layout.lost_data)
            details.append(f"{node.title}: lost {directory.name}, with {plural(count, 'partition')}")
        for node in alive:
            if self.wait(lambda node=node: self._failed(node) is True, _NOTICED_S):  # type: ignore[misc]
                failed.append(node)
        noticed = f"reported as failed after {ms(began, now_ns())}" if failed else "not reported as failed"
        return Effect(began, len(failed) == len(nodes), f"{'; '.join(details)}; {noticed}")

    def heal(self, nodes: Sequence[Node], effect: Effect) -> tuple[int | None, Effect]:
        """Puts them back, and restarts the brokers. Raises LabError."""
        lasted = all(node.running and self._failed(node) is True for node in self._hit)
        for node in self._hit:
            node.terminate(TIMEOUT_S)
            node.layout.lost_data.rename(node.layout.second_data)
        restart = start_again(self._hit)
        whole = all(
            self.wait(lambda node=node: self._failed(node) is False)  # type: ignore[misc]
            for node in self._hit
        )
        over = whole and restart.complete
        details = [*restart.details, "reported as intact again" if whole else "still reported as failed"]
        return effect.healed(now_ns() if over else None, details, lasted and over)

    def _failed(self, node: Node) -> bool | None:
        """Whether the broker reports its second directory as failed; None if it does not answer."""
        return self.scene.admin.log_dirs(node.id).get(str(node.layout.second_data))
