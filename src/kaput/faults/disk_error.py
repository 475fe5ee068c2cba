"""disk-error: every access to the disk where the target keeps its data fails with an I/O error.

Like a disk that died: what was not synced to it is lost. A broker whose only log directory fails shuts itself
down. Heals by making the disk work again, with what it had, and by restarting brokers that have ended; one
that still runs is killed first.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from kaput.cluster.disk import device_of, mount_again
from kaput.errors import LabError
from kaput.faults.ballast import PROBE
from kaput.faults.fault import Effect, RunningFault, Scene, now_ns, start_again
from kaput.processes.mounts import ask

if TYPE_CHECKING:
    from kaput.faults.fault import DiskTarget

_SHUTDOWN = 0x8004587D  # FS_IOC_SHUTDOWN of linux/fs.h
_NO_FLUSH = struct.pack("I", 2)  # nothing is written out before


def break_disk(directory: Path) -> None:
    """Makes its file system fail. Raises LabError if it has none of its own, or that is impossible."""
    device_of(directory)
    try:
        ask(directory, _SHUTDOWN, _NO_FLUSH)
    except OSError as error:
        raise LabError(f"the disk at {directory} cannot be made to fail: {error.strerror}") from None


def write_error(directory: Path) -> int | None:
    """The errno with which a synced write to it fails; None if it succeeds."""
    path = directory / PROBE
    try:
        with path.open("wb") as file:
            file.write(b"x")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return error.errno
    with suppress(OSError):
        path.unlink()
    return None


class DiskError(RunningFault["DiskTarget"]):
    """Proof: a synced write there succeeds before, fails with EIO after the injection and still at the heal,
    and succeeds again after it.
    """

    name = "disk-error"
    needs = ("ext4",)
    break_disk: Callable[[Path], None] = staticmethod(break_disk)
    write_error: Callable[[Path], int | None] = staticmethod(write_error)
    repair: Callable[[Path], None] = staticmethod(mount_again)

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._broken: list[DiskTarget] = []

    def inject_into(self, alive: Sequence[DiskTarget], nodes: Sequence[DiskTarget]) -> Effect:
        details, failing = [], []
        for node in alive:
            if (before := self.write_error(node.data)) is not None:
                details.append(f"{node.title}: failed before ({os.strerror(before)}), so nothing is proven")
                continue
            node.expect_down()
            self._broken.append(node)
            self.break_disk(node.data)
            failing.append(self.write_error(node.data) == errno.EIO)
            details.append(
                f"{node.title}: a write {'fails: Input/output error' if failing[-1] else 'still succeeds'}"
            )
        confirmed = len(failing) == len(nodes) and all(failing)
        return Effect(now_ns() if any(failing) else None, confirmed, "; ".join(details))

    def heal(self, nodes: Sequence[DiskTarget], effect: Effect) -> tuple[int | None, Effect]:
        early = [node.title for node in self._broken if self.write_error(node.data) is None]
        lasting = [node for node in self._broken if node.running]
        for node in lasting:
            node.kill()
        for node in self._broken:
            self.repair(node.data)
        failing = [node.title for node in self._broken if self.write_error(node.data) is not None]
        for node in self._broken:
            node.expect_up()
        healed = now_ns()
        restart = start_again(self._broken)
        over = not failing and restart.complete
        ended = [node.title for node in self._broken if node not in lasting]
        details = [
            f"{', '.join(ended)} shut down" if ended else "no target ended",
            *(f"{node.title} still ran and was killed" for node in lasting),
            *(f"{title}: a write succeeded before the heal" for title in early),
            f"{', '.join(failing)}: still fails after the heal" if failing else "writes succeed again",
            *restart.details,
        ]
        return effect.healed(healed if over else None, details, over and not early)
