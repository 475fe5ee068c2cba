"""delete-topic: a topic is deleted for good. What was in it is gone, and that is permitted; messages sent to
it later are not stored, unless a client has it created anew, empty and with the brokers' defaults (their
`auto.create.topics.enable`, which is off unless the scenario's `cluster.config` says otherwise). If a
partition's leader had changed before (or with acks=0, or on an existing cluster), whether what no
group had read and no mirror had copied was still there is not known: let a group read along.

Not here: that it is created again as it was (recreate.py), and what that does to messages, which the analysis
counts.
"""

from __future__ import annotations

from kaput.core import plural
from kaput.errors import LabError
from kaput.faults.fault import Effect, TopicChange
from kaput.faults.recreate import deleted


class DeleteTopic(TopicChange):
    """One injection on one topic.

    Proof: the id of the topic, which no broker knew any more, and that there is none of the name at the end,
    or another one.
    """

    name = "delete-topic"

    def inject(self, topic: str) -> Effect:
        """Deletes it; returns once no broker knows it. Raises LabError."""
        self._id = self.scene.admin.topic_id(topic)
        gone_ns, proof = deleted(self.scene.admin, topic, self._id)
        return Effect(gone_ns, True, proof)

    def heal(self, topic: str, effect: Effect) -> tuple[int | None, Effect]:
        """Does nothing: it stays deleted. Raises LabError."""
        if effect.effective_ns is None:
            return effect.with_nothing_to_heal()
        if topic not in self.scene.admin.topics():
            return effect.effective_ns, effect.with_proof("none at the end", True)
        try:
            there, states = self.scene.admin.topic_id(topic), self.scene.admin.partitions([topic])
        except LabError as error:
            return None, effect.with_proof(str(error), False)
        if there == self._id:
            return None, effect.with_proof("the same one at the end", False)
        fewest = min((len(state.replicas) for state in states.values()), default=0)
        has = f"{plural(len(states), 'partition')} with {plural(fewest, 'replica')}"
        another = f"another one at the end ({there}; {has}): a client had it created"
        return effect.effective_ns, effect.with_proof(f"{another} (auto.create.topics.enable)", True)
