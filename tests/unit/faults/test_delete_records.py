"""delete-records proves where each log begins before and after, and deletes no more than it is told to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from fakes.cluster import FakeAdmin, fake_scene
from kaput.cluster.admin import PartitionState
from kaput.core import TopicPartition
from kaput.errors import LabError
from kaput.faults.delete_records import DeleteRecords

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)


class _Logs(FakeAdmin):
    """Two logs that begin at 0 and 5 and end at 10. `deaf`: it deletes nothing."""

    def __init__(self, *, deaf: bool = False, refuses: bool = False) -> None:
        super().__init__()
        self.starts, self.committed_offsets = {ZERO: 0, ONE: 5}, {ZERO: 7, TopicPartition("bills", 0): 3}
        self.deaf, self.refuses = deaf, refuses
        self.asked_for: list[Mapping[TopicPartition, int]] = []

    def partitions(self, topics: object) -> dict[tuple[str, int], PartitionState]:
        assert topics == ["orders"]
        return dict.fromkeys((ZERO, ONE), PartitionState(1, [1], [1]))

    def log_start_offsets(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {place: self.starts[place] for place in places}

    def high_watermarks(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, 10)

    def committed(self, group: str) -> dict[TopicPartition, int]:
        return self.committed_offsets if group == "billing" else {}

    def delete_records(self, starts: Mapping[TopicPartition, int]) -> None:
        if self.refuses:
            raise LabError("records of orders/0 cannot be deleted: POLICY_VIOLATION")
        self.asked_for.append(starts)
        self.starts |= {} if self.deaf else starts


def _fault(admin: _Logs, **options: str) -> DeleteRecords:
    return DeleteRecords(fake_scene("delete-records", admin=admin, **options))


def test_records_up_to_the_high_watermark_are_deleted() -> None:
    """The proof has both ends of every partition; nothing is undone."""
    admin = _Logs()
    fault = _fault(admin)
    effect = fault.inject("orders")
    assert effect.confirmed and effect.effective_ns is not None and admin.asked_for == [{ZERO: 10, ONE: 10}]
    assert effect.proof.startswith("log start offset of orders/0 from 0 to 10, orders/1 from 5 to 10, after ")
    healed, after = fault.heal("orders", effect)
    assert healed == effect.effective_ns and after.confirmed and after.proof.endswith("; no lower at the end")


def test_committed_by_deletes_only_up_to_the_committed_offset() -> None:
    """Nor does it lose what is in partitions where it has committed nothing."""
    admin = _Logs()
    effect = _fault(admin, committed_by="billing").inject("orders")
    assert effect.confirmed and admin.asked_for == [{ZERO: 7}]
    assert "orders/0 from 0 to 7, orders/1 from 5 to 5" in effect.proof


def test_delete_records_requires_a_raised_log_start_offset() -> None:
    """The broker says yes, and the log begins where it did."""
    effect = _fault(_Logs(deaf=True)).inject("orders")
    assert not effect.confirmed and "orders/0 from 0 to 0" in effect.proof


def test_empty_log_causes_no_delete_request() -> None:
    """No request is made."""
    admin = _Logs()
    admin.starts = {ZERO: 10, ONE: 10}
    fault = _fault(admin)
    effect = fault.inject("orders")
    assert (effect.effective_ns, effect.confirmed) == (None, False) and "nothing to delete" in effect.proof
    assert not admin.asked_for and fault.heal("orders", effect)[0] is not None


def test_log_start_offset_must_not_be_lower_at_the_end() -> None:
    """Somebody deleted the topic and made it anew."""
    admin = _Logs()
    fault = _fault(admin)
    effect = fault.inject("orders")
    admin.starts = {ZERO: 0, ONE: 0}
    healed, after = fault.heal("orders", effect)
    assert healed is None and not after.confirmed and after.proof.endswith("lower again at the end")


@pytest.mark.parametrize(
    ("admin", "group", "text"),
    [
        (_Logs(refuses=True), "", "POLICY_VIOLATION"),
        (_Logs(), "audit", "group audit has committed nothing there"),
    ],
)
def test_failed_delete_includes_the_reason(admin: _Logs, group: str, text: str) -> None:
    """With Kafka's reason, or kaput's."""
    with pytest.raises(LabError, match=text):
        _fault(admin, committed_by=group).inject("orders")
