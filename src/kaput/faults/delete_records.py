"""delete-records: the beginning of a topic is deleted, as by kafka-delete-records: everything below the high
watermark, or below what a group has committed (`committed-by`).

Clients that have not read it by then never will: a mirror that is behind goes on where the log begins now.
Not here: what that does to messages, which the analysis counts (analysis/questions/mirrors.py).
"""

from __future__ import annotations

from collections.abc import Mapping

from kaput.core import TopicPartition
from kaput.errors import LabError
from kaput.faults.fault import Effect, TopicChange, ms, now_ns
from kaput.scenario.fault_kinds import DeleteRecordsOptions

Starts = Mapping[TopicPartition, int]


class DeleteRecords(TopicChange):
    """One injection on one topic.

    Proof: the log start offset of each partition before and after it, the one asked for, and above the one
    before in at least one partition; at the end none is lower.
    """

    name = "delete-records"
    options: DeleteRecordsOptions

    def inject(self, topic: str) -> Effect:
        """Deletes records, and reads the new log start offsets. Raises LabError."""
        admin = self.scene.admin
        places = sorted(admin.partitions([topic]))
        before, wanted = admin.log_start_offsets(places), self._wanted(places)
        self._after: Starts = before
        wanted = {place: offset for place, offset in wanted.items() if offset > before[place]}
        if not wanted:
            return Effect(None, False, f"{topic}: there is nothing to delete")
        began = now_ns()
        admin.delete_records(wanted)
        self._after = admin.log_start_offsets(places)
        deleted = now_ns()
        details = f"log start offset of {moved(before, self._after)}, after {ms(began, deleted)}"
        return Effect(deleted, reached(self._after, wanted), details)

    def heal(self, topic: str, effect: Effect) -> tuple[int | None, Effect]:
        """Does nothing: deleted records are gone. Raises LabError."""
        if effect.effective_ns is None:
            return now_ns(), effect
        there = reached(self.scene.admin.log_start_offsets(sorted(self._after)), self._after)
        return (effect.effective_ns if there else None), effect.with_proof(
            "no lower at the end" if there else "lower again at the end", there
        )

    def _wanted(self, places: list[TopicPartition]) -> Starts:
        """The wanted log start offsets. Raises LabError."""
        admin, group = self.scene.admin, self.options.committed_by
        if not group:
            return admin.high_watermarks(places)
        committed = admin.committed(group)
        if not any(place in committed for place in places):
            raise LabError(f"group {group} has committed nothing there")
        return {place: committed[place] for place in places if place in committed}


def moved(before: Starts, after: Starts) -> str:
    """`orders/0 from 0 to 812, orders/1 ...`: every partition."""
    return ", ".join(f"{place} from {before[place]:,} to {after[place]:,}" for place in sorted(before))


def reached(starts: Starts, wanted: Starts) -> bool:
    """Whether each of these logs starts at the wanted offset, or later."""
    return all(starts.get(place, -1) >= offset for place, offset in wanted.items())
