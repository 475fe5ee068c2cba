"""disk-full: a file takes all free space where the target keeps its data.

A broker that can write none of its log directories shuts itself down; the run shows how soon. Heals by
deleting the file and restarting brokers that have ended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from kaput.faults.ballast import Ballast
from kaput.faults.fault import Effect, RunningFault, Scene, now_ns, start_again

if TYPE_CHECKING:
    from kaput.faults.fault import DiskTarget


class DiskFull(RunningFault["DiskTarget"]):
    """Proof: not one more page can be written there, at the injection and still at the heal.

    If a target has ended, only the file must still exist: its end may have freed space.
    """

    name = "disk-full"
    needs = ("tmpfs",)
    ballast: ClassVar[Callable[[Path, str], Ballast]] = Ballast

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._ballasts: dict[int, Ballast] = {}
        self._taken: dict[int, int] = {}

    def inject_into(self, alive: Sequence[DiskTarget], nodes: Sequence[DiskTarget]) -> Effect:
        details, full = [], []
        for node in alive:
            ballast = type(self).ballast(node.data, f"kaput-ballast-{self.scene.step.id}")
            if ballast.refuses():
                details.append(f"{node.title}: was full before, so nothing is proven")
                continue
            node.expect_down()
            self._ballasts[node.id] = ballast
            self._taken[node.id] = ballast.take()
            full.append(ballast.refuses())
            details.append(
                f"{node.title}: {_mb(self._taken[node.id])} of ballast, "
                + ("writing another page fails (no space left on device)" if full[-1] else "still space left")
            )
        confirmed = len(full) == len(nodes) and all(full)
        return Effect(now_ns() if any(full) else None, confirmed, "; ".join(details))

    def heal(self, nodes: Sequence[DiskTarget], effect: Effect) -> tuple[int | None, Effect]:
        ours = [node for node in nodes if node.id in self._ballasts]
        early = [early for node in ours if (early := self._early(node))]
        for ballast in self._ballasts.values():
            ballast.delete()
        full = [node.title for node in ours if self._ballasts[node.id].refuses()]
        healed = now_ns()
        for node in ours:
            node.expect_up()
        ended = [node for node in ours if not node.running]
        restart = start_again(ended)
        over = not full and restart.complete
        details = [
            f"{', '.join(node.title for node in ended)} shut down" if ended else "no target ended",
            *early,
            f"{', '.join(full)}: still full after the heal"
            if full
            else "space available again after the heal",
            *restart.details,
        ]
        return effect.healed(healed if over else None, details, over and not early)

    def _early(self, node: DiskTarget) -> str | None:
        """A sentence if the disk was not full until the heal; None otherwise."""
        size, taken = self._ballasts[node.id].size(), self._taken.get(node.id, 0)
        if size < taken:
            return f"{node.title}: of {_mb(taken)} of ballast {_mb(size)} were left before the heal"
        if node.running and not self._ballasts[node.id].refuses():
            return f"{node.title}: another page could be written before the heal"
        return None


def _mb(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
