"""flap: a link that comes and goes: cut for `down`, whole for `up`, and so on until it is healed."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from kaput.cluster.node import Node
from kaput.errors import LabError
from kaput.faults.cut import Cut
from kaput.faults.fault import Effect
from kaput.faults.severing import Severing


class Flap(Cut):
    """Proof: that of the first cut, and packets dropped in every later one."""

    name = "flap"

    def inject(self, nodes: Sequence[Node]) -> Effect:
        self._stop = threading.Event()
        self._cuts = [0]  # packets dropped in each cut
        self._trouble: str | None = None
        self._down = True
        effect = Severing.inject(self, nodes)
        self._thread = threading.Thread(target=self._flap, name="flap", daemon=True)
        if effect.effective_ns is not None:
            self._thread.start()
        return effect

    def heal(self, nodes: Sequence[Node], effect: Effect) -> tuple[int, Effect]:
        self.abandon()
        if effect.effective_ns is None:
            return Severing.heal(self, nodes, effect)
        self._thread.join()
        if not self._down:
            self.put()  # so that the last heal is the same as any other
        healed, after = Severing.heal(self, nodes, effect)
        cuts = [count for count in self._cuts if count]
        said = f"{after.proof}; cut {len(self._cuts)} times, {sum(cuts):,} packets before the last of them"
        bit = after.bit and self._trouble is None
        return healed, Effect(after.effective_ns, bit, said + (f"; {self._trouble}" if self._trouble else ""))

    def abandon(self) -> None:
        self._stop.set()

    def _flap(self) -> None:
        options = self.scene.options
        try:
            while not self._stop.wait(options.down / 1000):
                self._cuts[-1] = self.dropped()
                self.lift()
                self._down = False
                if self._stop.wait(options.up / 1000):
                    return
                self.put()
                self._down = True
                self._cuts.append(0)
        except LabError as error:
            self._trouble = f"the link stopped flapping: {error}"
