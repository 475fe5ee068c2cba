"""flap: a link that goes down and up: cut for `down`, working for `up`, repeatedly until the heal."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest

from kaput.cluster.node import Node
from kaput.core import SECOND
from kaput.errors import LabError
from kaput.faults import probes
from kaput.faults.cut import Cut
from kaput.faults.fault import Effect, Scene, now_ns
from kaput.scenario.fault_kinds import FlapOptions


class Flap(Cut):
    """Proof: that of cut, for each cut; and that the link worked in between."""

    name = "flap"
    options: FlapOptions

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._cuts, self._earlier = 1, 0  # cuts so far, and packets dropped by past cuts
        self._down = True
        self._toggles: list[int] = []  # when it worked again, and was cut again, in turn
        self._trouble: list[str] = []
        self._thread = threading.Thread(target=self._flap, name="flap", daemon=True)

    def inject(self, nodes: Sequence[Node]) -> Effect:
        effect = super().inject(nodes)
        if effect.effective_ns is not None:
            self._thread.start()
        return effect

    def heal(self, nodes: Sequence[Node], effect: Effect) -> tuple[int | None, Effect]:
        self.abandon()
        if effect.effective_ns is None:
            return super().heal(nodes, effect)
        self._thread.join()  # every wait in it is bounded
        healed, after = super().heal(nodes, effect)
        details = "; ".join([f"times cut: {self._cuts}{self._when(effect.effective_ns)}", *self._trouble])
        after = replace(after, toggles_ns=tuple(self._toggles))
        return healed, after.with_proof(details, not self._trouble)

    def _when(self, effective_ns: int) -> str:
        """` (it worked from 12.0 to 18.0 s after its effect)`"""
        seconds = [f"{(at - effective_ns) / SECOND:.1f}" for at in self._toggles]
        pairs = zip_longest(seconds[::2], seconds[1::2], fillvalue="the heal")
        spans = [f"from {up} to {down}" for up, down in pairs]
        return f" (it worked {', '.join(spans)} s after its effect)" if spans else ""

    def dropped(self) -> int:
        return self._earlier + super().dropped()

    def _flap(self) -> None:
        """The thread; starts after the first cut is proven, and ends at the first one that is not."""
        down_s, up_s = self.options.down / 1000, self.options.up / 1000
        left_s = down_s
        try:
            while not self.abandoned.wait(left_s):
                self._prove_whole()
                if self._trouble or self.abandoned.wait(up_s):
                    return
                began = time.monotonic()
                self._prove_cut(min(down_s, probes.DURING_S))
                if self._trouble:
                    return
                left_s = max(0.0, down_s - (time.monotonic() - began))
        except LabError as error:
            self._trouble.append(f"the link stopped flapping: {error}")

    def _prove_whole(self) -> None:
        """Removes the barriers; blocked connections must work again."""
        gone = self._gone()
        self._earlier, self._down = self.dropped(), False
        self._toggles.append(now_ns())
        self.lift()
        left, _ = probes.healed(self._askable(self._busy()), self.scene)
        self._trouble = gone + [
            f"after cut {self._cuts} node {node} was not reached by {self._title({p})}"
            for p, node in sorted(left)
        ]

    def _prove_cut(self, timeout_s: float) -> None:
        """Adds the barriers again; connections must fail because of them."""
        self.put()
        self._toggles.append(now_ns())
        self._down = True
        self._cuts += 1
        leaks = probes.reached(self._forbidden, self.scene, timeout_s)
        wrong = self._leaks(leaks) + ([] if self._busy() else self._idle())
        self._trouble = [f"in cut {self._cuts} {details}" for details in wrong]

    def _early(self) -> list[str]:
        return super()._early() if self._down else []
