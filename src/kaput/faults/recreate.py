"""recreate: a topic is deleted and created again, with as many partitions on the same replicas and with its
own settings: it is empty, its offsets and leader epochs begin at 0 again, and it has another id. With `for`,
it is gone for that time. Members with librdkafka (2.16.0) read nothing more of a partition whose leader had
changed before: they take the new epoch for an old one (its issue 4898), so that their group is not drained.

Clients go by its name: a client with a position in the old topic may go on at that offset of the new one, and
never read what is below. Not here: what that does to messages, which the analysis counts
(analysis/questions/mirrors.py, unseen.py).
"""

from __future__ import annotations

import uuid

from kaput.cluster.admin import Admin
from kaput.core import TopicPartition
from kaput.faults.fault import Effect, TopicChange, ms, now_ns
from kaput.scenario.model import Topic


class Recreate(TopicChange):
    """One injection on one topic.

    Proof: the ids of the old topic, which no broker knew any more, and of the new one, which is still there
    at the end.
    """

    name = "recreate"

    def inject(self, topic: str) -> Effect:
        """Deletes it, and creates it again once no broker knows it. Raises LabError."""
        admin = self.scene.admin
        self._id: uuid.UUID = admin.topic_id(topic)
        before, partitions = self._id, sorted(admin.partitions([topic]).items())
        replicas = [state.replicas for _, state in partitions]
        self._again = Topic(name=topic, assignment=replicas, config=admin.own_settings(topic))
        gone, proof = deleted(admin, topic, before)
        self._away = self.scene.step.duration_ms is not None
        if self._away:
            return Effect(gone, True, proof)
        self._create()
        again = f"and was there again ({self._id}) {ms(gone, now_ns())} later"
        return Effect(gone, self._id != before, f"{proof}, {again}")

    def heal(self, topic: str, effect: Effect) -> tuple[int | None, Effect]:
        """Creates a topic that is gone; otherwise does nothing. Raises LabError."""
        if effect.effective_ns is None:
            return now_ns(), effect
        if self._away:
            old = self._id
            self._create()
            another = self._id != old
            details = f"created again ({self._id})"
            return (now_ns() if another else None), effect.with_proof(details, another)
        there = self.scene.admin.topic_id(topic) == self._id
        details = "the same at the end" if there else "another one at the end"
        return (effect.effective_ns if there else None), effect.with_proof(details, there)

    def _create(self) -> None:
        self.scene.admin.create_topics([self._again], in_sync=False)
        self._id = self.scene.admin.topic_id(self._again.name)


def deleted(admin: Admin, topic: str, id_: uuid.UUID) -> tuple[int, str]:
    """Deletes it; returns from when on no broker knew it (ns), and a sentence. Raises LabError."""
    # Of partitions whose leader answers: waiting for another one would take until its election.
    ended = admin.reachable_log_ends([topic])
    began = now_ns()
    admin.delete_topic(topic)
    gone = now_ns()  # messages acknowledged from now on are in a new topic
    return gone, f"{topic} ({id_}; {_ends(ended)}) was deleted after {ms(began, gone)}"


def _ends(ends: dict[TopicPartition, int]) -> str:
    """`orders/0 ended at 812, orders/1 ...`: every partition whose leader answered."""
    return (
        ", ".join(f"{place} ended at {end:,}" for place, end in sorted(ends.items())) or "no leader answered"
    )
