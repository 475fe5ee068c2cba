"""flap: a link that comes and goes: cut for `down`, whole for `up`, and so on until it is healed."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from kaput.cluster.node import Node
from kaput.errors import LabError
from kaput.faults.cut import Cut
from kaput.faults.fault import Effect, Scene
from kaput.faults.severing import Severing


class Flap(Cut):
    """Proof: that of the first cut, and the packets dropped in all of them."""

    name = "flap"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._stop = threading.Event()
        self._cuts, self._earlier = 1, 0  # cuts so far, and packets dropped in all that are over
        self._down = True
        self._trouble: str | None = None

    def inject(self, nodes: Sequence[Node]) -> Effect:
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
        healed, after = Severing.heal(self, nodes, effect)
        said = f"{after.proof}; times cut: {self._cuts}"
        bit = after.bit and self._trouble is None
        return healed, Effect(after.effective_ns, bit, said + (f"; {self._trouble}" if self._trouble else ""))

    def dropped(self) -> int:
        return self._earlier + (Severing.dropped(self) if self._down else 0)

    def abandon(self) -> None:
        self._stop.set()

    def _flap(self) -> None:
        options = self.scene.options
        try:
            while not self._stop.wait(options.down / 1000):
                self._earlier, self._down = self.dropped(), False
                self.lift()
                if self._stop.wait(options.up / 1000):
                    return
                self.put()
                self._down = True
                self._cuts += 1
        except LabError as error:
            self._trouble = f"the link stopped flapping: {error}"
