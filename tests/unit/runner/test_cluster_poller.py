"""What two looks at a cluster tell of what happened between them."""

from __future__ import annotations

import threading
import time
from typing import Any

from kaput.cluster.admin import PartitionState
from kaput.errors import LabError
from kaput.runner.cluster_events import Poller, broker_changes, partition_changes
from waiting import eventually

PLACE = ("orders", 0)
FIRST = PartitionState(1, [1, 2, 3], [1, 2, 3], 4)


def told(before: PartitionState | None, now: PartitionState) -> list[tuple[object, ...]]:
    """(kind, leader, epoch, isr) of each event."""
    found = partition_changes({PLACE: before} if before else {}, {PLACE: now}, 900, 200)
    assert all((e.at_ns, e.within_ns, e.source) == (900, 200, "polling") for e in found)
    assert all((e.topic, e.partition) == PLACE for e in found)
    return [(e.kind, e.leader, e.leader_epoch, e.isr) for e in found]


def test_first_poll_records_the_leader() -> None:
    """Whatever was before that is nobody's business."""
    assert told(None, FIRST) == [("leader", 1, 4, [1, 2, 3])]


def test_isr_order_is_ignored() -> None:
    """The order in which an ISR is told means nothing."""
    assert told(FIRST, PartitionState(1, [1, 2, 3], [3, 2, 1], 4)) == []


def test_leader_change_and_isr_shrink_are_events() -> None:
    assert told(FIRST, PartitionState(2, [1, 2, 3], [2, 3], 5)) == [("leader", 2, 5, [2, 3])]
    assert told(FIRST, PartitionState(1, [1, 2, 3], [1, 3], 4)) == [("isr", 1, 4, [1, 3])]
    assert told(FIRST, PartitionState(None, [1, 2, 3], [1], 5)) == [("leader", -1, 5, [1])]


def test_skipped_leader_epoch_is_an_event_without_a_leader() -> None:
    """Somebody led in between, and a loss may be due to him."""
    found = told(FIRST, PartitionState(1, [1, 2, 3], [1, 2, 3], 7))
    assert found == [("leader", None, 5, None), ("leader", None, 6, None), ("leader", 1, 7, [1, 2, 3])]


def test_stale_leader_epoch_is_ignored() -> None:
    assert told(FIRST, PartitionState(3, [1, 2, 3], [3], 3)) == []


def test_fenced_and_unfenced_brokers_are_events() -> None:
    """As the cluster itself sees them."""
    found = broker_changes(frozenset({1, 2}), frozenset({2, 3}), 900, 200)
    assert [(e.kind, e.broker, e.at_ns, e.within_ns) for e in found] == [
        ("unfenced", 3, 900, 200),
        ("fenced", 1, 900, 200),
    ]


class _Cluster:
    """Answers with its views, one after the other, then with the last one; an error among them is raised."""

    def __init__(self, *views: PartitionState | LabError) -> None:
        self.views, self.asked = list(views), 0

    def live(self, topics: list[str]) -> tuple[frozenset[int], dict[Any, PartitionState]]:
        self.asked += 1
        view = self.views.pop(0) if len(self.views) > 1 else self.views[0]
        if isinstance(view, LabError):
            raise view
        return frozenset({1, 2, 3}), {PLACE: view}


def test_event_time_reaches_back_to_the_last_response() -> None:
    """While nobody answers anything may happen; and an older view in between changes nothing."""
    second = PartitionState(2, [1, 2, 3], [2, 3], 5)
    cluster = _Cluster(FIRST, LabError("nobody"), LabError("nobody"), second, FIRST, second)
    poller = Poller(cluster, ["orders"], every_s=3600)  # type: ignore[arg-type]
    begin = time.time_ns()
    poller.look()
    answered = time.time_ns()
    time.sleep(0.02)
    for _ in range(5):
        poller.look()
    with poller:
        found = [event for event in poller.events() if event.kind == "leader"]
    assert [event.leader for event in found] == [1, 2]
    change = found[1]
    assert (
        change.within_ns is not None and begin <= change.at_ns - change.within_ns <= answered < change.at_ns
    )


def test_poller_polls_until_its_events_are_taken() -> None:
    """By itself, and once more at the end."""
    cluster = _Cluster(FIRST)
    with Poller(cluster, ["orders"], every_s=0.01) as poller:  # type: ignore[arg-type]
        assert eventually(lambda: cluster.asked > 2)
        asked = cluster.asked
        poller.events()
        assert cluster.asked > asked
        assert "polling" not in {thread.name for thread in threading.enumerate()}, "it still looks"
