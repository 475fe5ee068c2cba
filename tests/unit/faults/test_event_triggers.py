"""Steps that wait for events begin at the right one, and those whose event never comes say so."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from fakes.cluster import FakeAdmin
from fakes.nemesis import play, play_until
from fakes.steps import step_of
from kaput.cluster.admin import PartitionState
from kaput.cluster.network.loopback import Loopback
from kaput.core import TopicPartition
from kaput.errors import LabError
from kaput.faults.event_triggers import Anchors, Occurrence
from kaput.faults.nemesis import Nemesis
from kaput.faults.resolving import Surroundings
from kaput.scenario.targets import parse_target
from kaput.scenario.timeline import AfterStart, AtAttempt, AtEvent, Step
from waiting import wait_for

ORDERS = TopicPartition("orders", 0)
START = AfterStart(0)


def election(partition: int = 0, noticed_ns: int = 9) -> Occurrence:
    """Of a partition of orders."""
    return Occurrence("election", (f"orders/{partition}", "orders"), "leader 2", 5, noticed_ns)


class Source:
    """Tells what a test says, and counts how often it is asked."""

    events = frozenset({"election"})

    def __init__(self, *first: Occurrence) -> None:
        self.waiting = list(first)
        self.asked = 0
        self.closed = False
        self.error: Exception | None = None

    def take(self) -> list[Occurrence]:
        self.asked += 1
        if self.error is not None:
            raise self.error
        taken, self.waiting = self.waiting, []
        return taken

    def close(self) -> None:
        self.closed = True


def waiting(number: int, of: str | None = None, nth: int = 1, after: AfterStart | AtAttempt = START) -> Step:
    """A step that waits for an election."""
    return step_of(f"{number}-noop", "noop", "all", AtEvent("election", of, nth, after), 10, 1)


def test_step_starts_at_the_nth_matching_event() -> None:
    """Other partitions do not count, and neither does what happened before it began to wait."""
    source, begun = Source(election(), election()), list[str]()
    anchors = Anchors([source], lambda step: begun.append(step.id))
    anchors.wait(waiting(1, "orders/0", nth=2))
    anchors.wait(waiting(2, "orders", nth=3))
    anchors.wait(waiting(3))
    source.waiting += [election(1), election(0)]
    wait_for(lambda: begun == ["3-noop"], "the first step")
    source.waiting.append(election(0))
    wait_for(lambda: sorted(begun) == ["1-noop", "2-noop", "3-noop"], "all steps")
    anchors.close()
    assert source.closed


def test_event_sources_are_polled_only_while_a_step_waits() -> None:
    """A run whose events have come pays nothing; a step that waits later has them asked again."""
    source, begun = Source(), list[str]()
    anchors = Anchors([source], lambda step: begun.append(step.id))
    anchors.wait(step_of("1-noop", "noop", "all", AtEvent("effect", "9-kill"), 10, 1))
    assert source.asked == 0
    anchors.wait(waiting(2))
    source.waiting.append(election())
    wait_for(lambda: begun == ["2-noop"], "the step")
    wait_for(lambda: "events" not in [thread.name for thread in threading.enumerate()], "the end of polling")
    anchors.wait(waiting(3))
    source.waiting.append(election())
    wait_for(lambda: begun == ["2-noop", "3-noop"], "the later step")
    anchors.close()


def test_fault_row_records_the_event_and_its_times(tmp_path: Path) -> None:
    """Both of the event, and neither of a step that waited for none."""
    source = Source()

    def drive(nemesis: Nemesis) -> None:
        play_until(nemesis, lambda: source.asked > 0)
        source.waiting.append(election())

    plain = step_of("2-noop", "noop", "all", AfterStart(0), 10, 1)
    rows, _ = play(tmp_path, [waiting(1), plain], drive, sources=[source])
    assert [(row["event"], row["event_ns"], row["noticed_ns"]) for row in rows] == [
        ("election of orders/0 (leader 2)", 5, 9),
        (None, None, None),
    ]
    assert rows[0]["bit"] and source.closed


def test_step_can_start_at_effect_or_heal_of_another_step(tmp_path: Path) -> None:
    """At once, and with the other step's own times."""
    steps = [
        step_of("1-pause", "pause", "broker 1", AfterStart(0), 50, 1),
        step_of("2-noop", "noop", "all", AtEvent("effect", "1-pause"), 10, 1),
        step_of("3-noop", "noop", "all", AtEvent("heal", "1-pause"), 10, 1),
    ]
    rows, _ = play(tmp_path, steps, lambda _nemesis: None)
    pause, effect, heal = rows
    assert (effect["event"], effect["event_ns"]) == ("effect of 1-pause", pause["effective_ns"])
    assert (heal["event"], heal["event_ns"]) == ("heal of 1-pause", pause["healed_ns"])
    assert pause["effective_ns"] <= effect["injected_ns"] < pause["healed_ns"] <= heal["injected_ns"]


def test_events_before_the_after_trigger_are_ignored(tmp_path: Path) -> None:
    """Until the 30th attempt nothing is asked, and what happened before does not count."""
    source = Source(election())

    def drive(nemesis: Nemesis) -> None:
        assert nemesis.thresholds == [30] and source.asked == 0
        nemesis.threshold(30)
        assert source.asked > 0 and not source.waiting
        source.waiting.append(election(noticed_ns=77))

    (row,), _ = play(tmp_path, [waiting(1, after=AtAttempt(30))], drive, sources=[source])
    assert row["noticed_ns"] == 77


@pytest.mark.parametrize(
    ("error", "why"),
    [(None, ""), (LabError("no broker answered"), " (no broker answered)"), (OSError("gone"), " (gone)")],
)
def test_missing_event_is_reported_with_its_cause(tmp_path: Path, error: Exception | None, why: str) -> None:
    """With what kept it from being noticed, if anything is known."""
    source = Source()

    def drive(nemesis: Nemesis) -> None:
        play_until(nemesis, lambda: source.asked > 0)
        source.error, before = error, source.asked
        wait_for(lambda: source.asked > before + 1, "another look")
        nemesis.workload_over()

    (row,), _ = play(tmp_path, [waiting(1, "orders/0", nth=2)], drive, sources=[source])
    wanted = "the workload ended before its event occurred: election of orders/0 number 2"
    assert row["proof"] == wanted + why and not row["bit"] and row["event"] is None


def test_leader_target_waits_until_the_new_epoch_is_known() -> None:
    """Brokers learn of an election after the controller: until then they name the leader before."""

    class Late(FakeAdmin):
        answers = 0

        def partitions(self, topics: Any) -> dict[tuple[str, int], PartitionState]:
            self.answers += 1
            if self.answers == 1:
                raise LabError("no broker answered")
            return {ORDERS: PartitionState(2, [1, 2], [2], min(self.answers, 7))}

    late = Late()
    since = Occurrence("election", ("orders/0",), "", 1, 1, ORDERS, epoch=5)
    since.wait_until_known(late, parse_target("broker 1"))  # type: ignore[arg-type]
    assert late.answers == 0
    since.wait_until_known(late, parse_target("leader-of orders/0"))  # type: ignore[arg-type]
    assert late.answers == 5


def test_waiting_steps_are_armed_before_steps_due_at_the_same_time() -> None:
    """Its effect would else be over before anybody waits for it."""

    class Noting(Nemesis):
        def _due(self, step: Step) -> None:
            order.append(step.id)

    for trigger in (START, AtAttempt(7)):
        order: list[str] = []
        steps = [step_of("1-pause", "pause", "all", trigger, 10, 1), waiting(2, after=trigger)]
        around = Surroundings(nodes={}, network=Loopback(), brokers=list, admin=FakeAdmin())  # type: ignore[arg-type]
        nemesis = Noting(steps, around, on_record=lambda record: None)
        nemesis.start()
        if nemesis.thresholds:
            nemesis.threshold(7)
        wait_for(lambda order=order: len(order) == 2, "both steps")  # type: ignore[misc]
        nemesis.abort()
        assert order == ["2-noop", "1-pause"]
        order.clear()
