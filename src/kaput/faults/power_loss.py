"""power-loss: the targets' machines lose power: processes and all data not synced to disk are gone.

Kills the processes, then truncates each log to what had been synced (cluster/unsynced.py). That is the worst
case: an operating system writes some of the rest on its own, within about half a minute. Heals by a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from kaput.cluster.node import Node
from kaput.cluster.unsynced import UnsyncedTail, cut, tails
from kaput.errors import LabError
from kaput.faults.fault import Effect, in_parallel
from kaput.faults.kill import SigkillFault

_NAMED = 3


class PowerLoss(SigkillFault):
    """Proof: the process no longer exists, and no log reaches beyond what was synced."""

    name = "power-loss"
    tails: Callable[[Path, Path], list[UnsyncedTail]] = staticmethod(tails)
    cut: Callable[[UnsyncedTail], None] = staticmethod(cut)

    def inject(self, nodes: Sequence[Node]) -> Effect:
        killed = self.kill_all(nodes)
        hit = [node for node in nodes if self.was_hit(node)]
        if not hit or any(node.running for node in hit):
            return killed
        details = in_parallel(self._truncate, hit)
        return killed.with_proof("; ".join(words for words, _ in details), all(whole for _, whole in details))

    def _truncate(self, node: Node) -> tuple[str, bool]:
        """Truncates one broker's logs; returns a sentence, and whether only synced data is left."""
        try:
            unsynced = self.tails(node.layout.data, node.log)
            for tail in unsynced:
                self.cut(tail)
            left = self.tails(node.layout.data, node.log)
        except (OSError, ValueError) as error:
            raise LabError(f"the logs of {node.title} cannot be cut: {error}") from None
        taken = sum(tail.size for tail in unsynced) - sum(tail.size for tail in left)
        words = f"{node.title}: {taken:,} bytes cut that it had not synced{_tails_text(unsynced)}"
        return f"{words}, {sum(t.size for t in left):,} left" if left else words, not left


def _tails_text(unsynced: Sequence[UnsyncedTail]) -> str:
    """` (orders-0 from offset 900 on, ...)`, the longest first."""
    longest = sorted(unsynced, key=lambda tail: (-tail.size, tail.topic, tail.partition))
    names = [f"{t.topic}-{t.partition} from offset {t.synced:,} on" for t in longest[:_NAMED]]
    more = len(unsynced) - len(names)
    return f" ({', '.join(names)}{f' and {more:,} more' if more else ''})" if names else ""
