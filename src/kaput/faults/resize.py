"""resize: a topic gets more partitions while it is written and read. Kafka cannot remove them.

Not here: what that does to keys and to groups that begin at the end, which the analysis counts
(analysis/questions/keys.py).
"""

from __future__ import annotations

from kaput.faults.fault import Effect, TopicChange, lacking, ms, now_ns
from kaput.scenario.fault_kinds import ResizeOptions

_LED_S = 60.0


class Resize(TopicChange):
    """One injection on one topic.

    Proof: the topic has the wanted number of partitions, more than before, each with a leader and its full
    ISR, and still has them at the end.
    """

    name = "resize"
    options: ResizeOptions

    def inject(self, topic: str) -> Effect:
        """Adds the partitions, and waits until they can be written to. Raises LabError."""
        admin, wanted = self.scene.admin, self.options.partitions
        before = len(admin.partitions([topic]))
        if wanted <= before:
            return Effect(None, False, f"{topic} already has {before} partitions")
        began = now_ns()
        admin.add_partitions(topic, wanted)
        accepted = now_ns()
        lacks = self.wait_until_complete(lambda: self._lacks(topic, wanted), _LED_S)
        details = (
            f"{topic}: {wanted:,} partitions instead of {before:,}, accepted after {ms(began, accepted)}"
        )
        if lacks:
            return Effect(accepted, False, f"{details}; not complete after {_LED_S:.0f} s: {lacks}")
        ready = now_ns()
        return Effect(
            ready, True, f"{details}, all with a leader and their full ISR after {ms(began, ready)}"
        )

    def heal(self, topic: str, effect: Effect) -> tuple[int | None, Effect]:
        """Does nothing: the partitions stay. Raises LabError."""
        if effect.effective_ns is None:
            return now_ns(), effect
        there, wanted = len(self.scene.admin.partitions([topic])), self.options.partitions
        details = f"{there:,} at the end"
        return (effect.effective_ns if there >= wanted else None), effect.with_proof(details, there >= wanted)

    def _lacks(self, topic: str, wanted: int) -> str:
        states = self.scene.admin.partitions([topic])
        return lacking(states) if len(states) >= wanted else f"{len(states):,} partitions are known"
