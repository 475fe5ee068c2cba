"""resize: a topic gets more partitions while it is written and read. It never gets fewer again.

Not here: what that does to keys and to groups that begin at the end, which the analysis counts
(analysis/questions/keys.py).
"""

from __future__ import annotations

import threading

from kaput.errors import LabError
from kaput.faults.fault import Effect, Scene, now_ns
from kaput.faults.rolling_restart import lacking

_LED_S = 60.0
_POLL_S = 0.02


class Resize:
    """One injection of it on one topic.

    Proof: the cluster has as many partitions as were wanted, more than before, each with a leader and its
    full ISR, and has them still at the end.
    """

    name = "resize"

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self._abandoned = threading.Event()

    def inject(self, topic: str) -> Effect:
        """Adds the partitions, and waits until they can be written. Raises LabError."""
        admin, wanted = self.scene.admin, self.scene.options.partitions
        before = len(admin.partitions([topic]))
        if wanted <= before:
            return Effect(None, False, f"{topic} has {before} partitions already")
        began = now_ns()
        admin.add_partitions(topic, wanted)
        accepted = now_ns()
        lacks = self._wait_led(topic, wanted)
        said = f"{topic}: {wanted:,} partitions instead of {before:,}, accepted after {_ms(began, accepted)}"
        if lacks:
            return Effect(accepted, False, f"{said}; not in order after {_LED_S:.0f} s: {lacks}")
        ready = now_ns()
        return Effect(ready, True, f"{said}, all with a leader and their full ISR after {_ms(began, ready)}")

    def heal(self, topic: str, effect: Effect) -> tuple[int | None, Effect]:
        """Nothing: partitions stay. Raises LabError."""
        if effect.effective_ns is None:
            return now_ns(), effect
        there, wanted = len(self.scene.admin.partitions([topic])), self.scene.options.partitions
        said = f"{there:,} at the end"
        return (effect.effective_ns if there >= wanted else None), effect.further(said, there >= wanted)

    def abandon(self) -> None:
        """The run is being ended: nothing is waited for any more."""
        self._abandoned.set()

    def _wait_led(self, topic: str, wanted: int) -> str:
        """Waits, for a bounded time, until every partition is in order; what is lacking when it is up."""
        limit = self.scene.clock.now() + _LED_S
        while True:
            lacks = self._lacks(topic, wanted)
            if not lacks or self._abandoned.is_set() or self.scene.clock.now() >= limit:
                return lacks
            self.scene.clock.sleep(_POLL_S)

    def _lacks(self, topic: str, wanted: int) -> str:
        try:
            states = self.scene.admin.partitions([topic])
        except LabError as error:
            return str(error)
        return lacking(states) if len(states) >= wanted else f"{len(states):,} partitions are known"


def _ms(from_ns: int, to_ns: int) -> str:
    return f"{(to_ns - from_ns) / 1e6:,.0f} ms"
