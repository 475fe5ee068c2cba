"""disk-full: a file takes all the room that is left where the target keeps its data.

A broker that can write none of its log directories shuts itself down; how soon is what the run shows. Heals
by taking the file away, and by a restart of those that have ended.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Sequence
from pathlib import Path

from kaput.cluster.node import Node
from kaput.faults.fault import Effect, Fault, name_all, now_ns

_BALLAST = "kaput-ballast"
_PROBE = "kaput-probe"
_TRIES = 100  # the broker may give room back while it is taken
_PAGE = 4096


class DiskFull(Fault):
    """Proof: not one more page can be written there; at the heal, which targets have ended of it."""

    name = "disk-full"
    needs = ("tmpfs",)

    def inject(self, nodes: Sequence[Node]) -> Effect:
        alive = [node for node in nodes if node.running]
        if not alive:
            return Effect(None, False, "no target was running")
        said, full = [], []
        for node in alive:
            node.expect_down()
            taken = _fill(node.place.data)
            full.append(_refuses(node.place.data))
            said.append(
                f"{node.title}: {taken / 1e6:.1f} MB of ballast, "
                + ("a page more is refused (no space left on device)" if full[-1] else "still room left")
            )
        bit = len(alive) == len(nodes) and all(full)
        return Effect(now_ns() if any(full) else None, bit, "; ".join(said))

    def heal(self, nodes: Sequence[Node], effect: Effect) -> tuple[int, Effect]:
        ended = [node for node in nodes if not node.running]
        for node in nodes:
            (node.place.data / _BALLAST).unlink(missing_ok=True)
        freed = all(not _refuses(node.place.data) for node in nodes)
        healed = now_ns()
        for node in ended:
            node.start()
        if effect.effective_ns is None:
            return healed, effect
        proof = f"{effect.proof}; {name_all(ended)} shut down" if ended else f"{effect.proof}; nobody ended"
        proof += "; room again after the heal" if freed else "; still full after the heal"
        return healed, Effect(effect.effective_ns, effect.bit and freed, proof)


def _fill(directory: Path) -> int:
    """Takes all the room there is, in one file; its bytes."""
    with (directory / _BALLAST).open("wb") as ballast:
        for _ in range(_TRIES):
            free = os.statvfs(directory)
            room = free.f_bavail * free.f_frsize
            if room < _PAGE:
                break
            size = ballast.seek(0, os.SEEK_END)
            with contextlib.suppress(OSError):  # the broker took some meanwhile: look again
                os.posix_fallocate(ballast.fileno(), size, room)
        return os.fstat(ballast.fileno()).st_size


def _refuses(directory: Path) -> bool:
    """Whether a page more cannot be written there."""
    probe = directory / _PROBE
    try:
        probe.write_bytes(bytes(_PAGE))
    except OSError as error:
        return error.errno == errno.ENOSPC
    finally:
        probe.unlink(missing_ok=True)
    return False
