"""disk-stall: nothing more can be written where the target keeps its data, and no error says so.

Like a network disk that hangs: the file system is frozen, so writes wait, while the process runs, answers
the controller, and holds its connections. Heals by thawing it: the writes that waited go on.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from kaput.cluster.disk import device_of
from kaput.errors import LabError
from kaput.faults.fault import Effect, RunningFault, Scene, name_all, now_ns
from kaput.processes.records import unmarked_environment

if TYPE_CHECKING:
    from kaput.faults.fault import DiskTarget

_ANSWER_S = 30.0  # what is dirty is written out first


class Freezer:
    """Frozen disks: the process of disk_freezer.py. Raises LabError where a directory has no own disk; so do
    its methods if the process does not answer.
    """

    def __init__(self, directories: Sequence[Path]) -> None:
        for directory in directories:
            device_of(directory)
        # Unmarked, so that the guardian does not end it: it must outlive kaput for as long as thawing takes.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "kaput.faults.disk_freezer", *map(str, directories)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            env=unmarked_environment(),
        )
        self._answered: dict[str, Any] | None = None

    def frozen(self) -> dict[str, Any]:
        """`frozen_ns`, and for each directory whether a write is `stalled`."""
        return self._answer()

    def thaw(self) -> dict[str, Any]:
        """Thaws them: `thawing_ns`, `thawed_ns`, and for each directory when that write returned
        (`returned_ns`).
        """
        assert self._process.stdin is not None
        if self._answered is None:
            with suppress(OSError):
                self._process.stdin.close()
            self._answered = self._answer()
            self._process.wait()
        return self._answered

    def _answer(self) -> dict[str, Any]:
        out = self._process.stdout
        assert out is not None
        ready, _, _ = select.select([out], [], [], _ANSWER_S)
        line = out.readline() if ready else b""
        if not line:
            raise LabError(f"the disk does not answer within {_ANSWER_S:.0f} s")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise LabError(f"the disk cannot be frozen: {answer['error']}")
        return answer


class DiskStall(RunningFault["DiskTarget"]):
    """Proof: a write that begins after the freeze has not returned half a second later, and returns when the
    disk is thawed, not before.
    """

    name = "disk-stall"
    needs = ("ext4",)
    freezer: ClassVar[Callable[[Sequence[Path]], Freezer]] = Freezer

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._freezer: Freezer | None = None
        self._hit: Sequence[DiskTarget] = ()

    def inject_into(self, alive: Sequence[DiskTarget], nodes: Sequence[DiskTarget]) -> Effect:
        self._hit = alive
        self._freezer = type(self).freezer([node.data for node in alive])
        answer = self._freezer.frozen()
        stalled = all(answer["stalled"])
        tried = "a write has not returned after half a second" if stalled else "writes still return"
        confirmed = stalled and len(alive) == len(nodes)
        return Effect(
            answer["frozen_ns"] if stalled else None,
            confirmed,
            f"{name_all(alive)}: disk frozen, {tried}",
        )

    def heal(self, nodes: Sequence[DiskTarget], effect: Effect) -> tuple[int | None, Effect]:
        if self._freezer is None:
            return now_ns(), effect
        answer = self._freezer.thaw()
        returned = [at_ns for at_ns in answer["returned_ns"] if at_ns is not None]
        over = len(returned) == len(self._hit)
        lasted = over and all(at_ns >= answer["thawing_ns"] for at_ns in returned)
        if effect.effective_ns is None:
            return answer["thawed_ns"] if over else None, effect
        waited_s = (min(returned, default=answer["thawed_ns"]) - effect.effective_ns) / 1e9
        details = [f"the write returned after {waited_s:.1f} s" if over else "the write has not returned"]
        if over:
            details.append("at the heal" if lasted else "before the heal")
        ended = [node.title for node in self._hit if not node.running]
        ending = f"; {', '.join(ended)} had ended by then" if ended else ""
        return answer["thawed_ns"] if over else None, effect.with_proof(", ".join(details) + ending, lasted)

    def abandon(self) -> None:
        if self._freezer is not None:
            with suppress(LabError):
                self._freezer.thaw()
