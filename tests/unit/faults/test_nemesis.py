"""The nemesis plays a timeline: triggers, durations, overlap, and steps whose time never comes."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fakes.cluster import FakeAdmin, FakeNode
from fakes.members import FakeGroups
from fakes.nemesis import play, play_until
from fakes.network import FakeNetwork
from fakes.steps import step_of
from kaput.cluster.network.loopback import Loopback
from kaput.errors import LabError
from kaput.evidence.folder import RunFolder
from kaput.evidence.recorder import Recorder
from kaput.evidence.sealing import seal
from kaput.faults.engine import into
from kaput.faults.fault import CommandResult
from kaput.faults.nemesis import Nemesis
from kaput.faults.resolving import Surroundings, resolve, resolve_members
from kaput.scenario.fault_kinds import CommandOptions
from kaput.scenario.targets import parse_target
from kaput.scenario.timeline import AfterStart, AtAttempt, Step


def test_message_count_injects_and_duration_heals(tmp_path: Path) -> None:
    """A step at message N waits for N, bites its target, and heals after its duration."""
    step = step_of("1-kill", "kill", "leader-of orders/0", AtAttempt(30), 50, 1)
    rows, nodes = play(tmp_path, [step], lambda nemesis: nemesis.threshold(30))
    assert nodes[2].done == ["kill", "start"] and nodes[1].done == []
    (row,) = rows
    assert row["bit"] and row["brokers"] == [2] and row["target"] == "leader-of orders/0"
    assert row["healed_ns"] - row["effective_ns"] >= 50_000_000


class Looker:
    """Notes what the nemesis says, and what had been done to the nodes by then."""

    def __init__(self) -> None:
        self.nodes: dict[int, FakeNode] = {}
        self.heard: list[tuple[object, ...]] = []

    def before(self, step: str, nodes: Sequence[int]) -> None:
        self.heard.append(("before", step, list(nodes), [list(self.nodes[i].done) for i in nodes]))

    def after(self, step: str) -> None:
        self.heard.append(("after", step, self.nodes[2].done))


def test_observer_is_called_before_injection_and_after_heal(tmp_path: Path) -> None:
    """It can look at what the targets have while they still are as they were, and hears of the heal."""
    witness = Looker()
    step = step_of("1-kill", "kill", "leader-of orders/0", AfterStart(0), 20, 1)
    play(tmp_path, [step], lambda _nemesis: None, witness=witness)
    assert witness.heard == [("before", "1-kill", [2], [[]]), ("after", "1-kill", ["kill", "start"])]


def test_faults_overlap(tmp_path: Path) -> None:
    """A kill may fall into a pause: each has its own thread, target and proof."""
    heard: list[tuple[str, str, str]] = []

    def drive(nemesis: Nemesis) -> None:
        play_until(nemesis, lambda: "1-pause" in {step for step, _, state in heard if state == "injected"})
        nemesis.threshold(2)
        play_until(nemesis, lambda: "2-kill" in {step for step, _, state in heard if state != "injected"})
        nemesis.workload_over()

    steps = [
        step_of("1-pause", "pause", "followers-of orders/0", AfterStart(0), None, 1),
        step_of("2-kill", "kill", "leader-of orders/0", AtAttempt(2), 50, 2),
    ]
    rows, nodes = play(tmp_path, steps, drive, heard=heard)
    pause, kill = rows
    assert pause["injected_ns"] < kill["injected_ns"] < kill["healed_ns"] < pause["healed_ns"]
    assert nodes[1].done == nodes[3].done == ["pause", "resume"]


def test_fault_without_duration_is_healed_when_the_workload_ends(tmp_path: Path) -> None:
    """A fault that is meant to stay heals once every attempt is made; one with a duration ends before."""
    heard: list[tuple[str, str, str]] = []
    over_ns: list[int] = []

    def drive(nemesis: Nemesis) -> None:
        nemesis.threshold(1)
        play_until(
            nemesis, lambda: ("2-pause", "pause broker 2", "healed") in heard and nodes[1].done == ["kill"]
        )
        over_ns.append(time.time_ns())
        nemesis.workload_over()

    steps = [
        step_of("1-kill", "kill", "broker 1", AtAttempt(1), None, 1),
        step_of("2-pause", "pause", "broker 2", AtAttempt(1), 100, 1),
    ]
    nodes = {number: FakeNode(number) for number in (1, 2, 3)}
    rows, _ = play(tmp_path, steps, drive, heard=heard, nodes=nodes)
    assert rows[0]["healed_ns"] >= over_ns[0] > rows[1]["healed_ns"] and nodes[1].running


def test_step_not_due_before_the_workload_ends_is_not_effective(tmp_path: Path) -> None:
    """The workload ended first: the step is recorded, unbitten, with the reason."""
    steps = [
        step_of("1-kill", "kill", "broker 1", AtAttempt(999), 10, 1),
        step_of("2-stop", "stop", "broker 2", AfterStart(60_000), 10, 1),
    ]
    rows, nodes = play(tmp_path, steps, lambda nemesis: nemesis.workload_over())
    assert [(row["bit"], row["brokers"], row["healed_ns"]) for row in rows] == [(False, [], None)] * 2
    assert rows[0]["proof"] == "the workload ended before the step was due" and nodes[1].done == []


def test_step_waits_for_its_message_while_the_workload_runs(tmp_path: Path) -> None:
    """However slowly it flows: longer than a step waits for a message that is on its way at the end."""
    heard: list[tuple[str, str, str]] = []

    def drive(nemesis: Nemesis) -> None:
        play_until(nemesis, lambda: ("2-noop", "noop all", "healed") in heard)
        assert "1-kill" not in {step for step, _, _ in heard}
        nemesis.threshold(30)

    steps = [
        step_of("1-kill", "kill", "broker 1", AtAttempt(30), 10, 1),
        step_of("2-noop", "noop", "all", AfterStart(1700), 10, 1),
    ]
    rows, _ = play(tmp_path, steps, drive, heard=heard)
    assert rows[0]["bit"], rows[0]["proof"]


def test_waiting_steps_use_no_threads(tmp_path: Path) -> None:
    """A timeline may have thousands of steps, by time and by message; only those under way cost a thread."""
    steps = [
        step_of(f"{i:04}-noop", "noop", "all", AtAttempt(i) if i % 2 else AfterStart(60_000 + i), 10, 1)
        for i in range(1, 2001)
    ]
    before = threading.active_count()
    at_work: list[int] = []

    def drive(nemesis: Nemesis) -> None:
        nemesis.threshold(999)
        at_work.append(threading.active_count() - before)
        nemesis.workload_over()

    rows, _ = play(tmp_path, steps, drive)
    assert at_work[0] <= 2, "the step under way, and the one thread that waits for all others"
    assert [row["id"] for row in rows if row["bit"]] == ["0999-noop"]
    assert len(rows) == 2000


def test_message_trigger_may_arrive_after_the_workload_ended(tmp_path: Path) -> None:
    """It is on its way when the producers report that all is sent: the step begins all the same."""
    step = step_of("1-noop", "noop", "all", AtAttempt(30), 10, 1)

    def drive(nemesis: Nemesis) -> None:
        nemesis.workload_over()
        nemesis.threshold(30)

    (row,), _ = play(tmp_path, [step], drive)
    assert row["bit"], row["proof"]


def test_unresolved_target_is_recorded_as_not_effective(tmp_path: Path) -> None:
    """A target that cannot be resolved is recorded with the reason, not raised."""
    step = step_of("1-kill", "kill", "leader-of orders/0", AfterStart(0), 10, 1)
    rows, _ = play(tmp_path, [step], lambda _nemesis: None, FakeAdmin(leader=None))
    assert not rows[0]["bit"] and "no leader" in str(rows[0]["proof"])


class Undead(FakeNode):
    """Cannot be killed, as a process that hangs in the kernel."""

    def kill(self) -> int:
        self.done.append("kill")
        raise LabError(f"{self.title} is still there 10 s after SIGKILL")


class Stuck(FakeNode):
    """Cannot be continued."""

    def resume(self) -> None:
        self.done.append("resume")
        raise LabError(f"{self.title} cannot be continued")


def test_failed_injection_is_recorded_and_healed_at_once(tmp_path: Path) -> None:
    """The row tells why and has not bitten; whatever was begun is ended, and the other steps go on."""
    steps = [
        step_of("1-kill", "kill", "broker 1", AfterStart(0), 60_000, 1),
        step_of("2-pause", "pause", "broker 2", AfterStart(50), 10, 2),
    ]
    witness, heard = Looker(), list[tuple[str, str, str]]()
    rows, _ = play(tmp_path, steps, lambda _nemesis: None, witness=witness, node=Undead, heard=heard)
    kill, pause = rows
    assert (kill["bit"], kill["effective_ns"], kill["brokers"]) == (False, None, [1])
    assert kill["proof"].startswith("the injection failed: broker 1 is still there 10 s after SIGKILL")
    assert kill["healed_ns"] is None and "broker 1 (pid 1001) has not ended" in kill["proof"]
    assert pause["bit"] and pause["healed_ns"] is not None
    for step, what, end in (
        ("1-kill", "kill broker 1", "not healed"),
        ("2-pause", "pause broker 2", "healed"),
    ):
        assert [told[0] for told in witness.heard if told[1] == step] == ["before", "after"]
        assert [told for told in heard if told[0] == step] == [(step, what, "injected"), (step, what, end)]


def test_failed_heal_is_recorded(tmp_path: Path) -> None:
    """The row is no bite any more, has no moment of a heal, and keeps what the injection proved."""
    step = step_of("1-pause", "pause", "broker 1", AfterStart(0), 10, 1)
    witness = Looker()
    (row,), _ = play(tmp_path, [step], lambda _nemesis: None, witness=witness, node=Stuck)
    assert not row["bit"] and row["effective_ns"] is not None and row["healed_ns"] is None
    assert row["proof"] == (
        "broker 1 (pid 1001): SIGSTOP, state stopped; the heal failed: broker 1 cannot be continued"
    )
    assert witness.heard[-1][:2] == ("after", "1-pause")


def test_injection_in_progress_is_recorded(tmp_path: Path) -> None:
    """Where kaput is killed meanwhile, the row tells who was being hit, and claims nothing."""
    seen: list[dict[str, Any]] = []

    class Reads(FakeNode):
        def kill(self) -> int:
            (stream,) = (tmp_path / "evidence" / "faults").glob("*.arrows")
            with pa.ipc.open_stream(stream.read_bytes()) as reader:
                seen.extend(reader.read_next_batch().to_pylist())
            return super().kill()

    step = step_of("1-kill", "kill", "broker 1", AfterStart(0), 10, 1)
    (row,), _ = play(tmp_path, [step], lambda _nemesis: None, node=Reads)
    (before,) = seen
    assert (before["bit"], before["effective_ns"], before["healed_ns"]) == (False, None, None)
    assert before["proof"] == "injection not finished" and before["brokers"] == [1]
    assert before["injected_ns"] == row["injected_ns"] and row["bit"]


def test_aborted_run_heals_no_lab_faults(tmp_path: Path) -> None:
    """Every step lets go at once; what was recorded at the injection stays."""

    def drive(nemesis: Nemesis) -> None:
        nemesis.threshold(1)
        begun = {"1-kill", "3-rolling-restart"}
        play_until(nemesis, lambda: {step for step, _, _ in heard} == begun and nodes[1].done == ["kill"])
        nemesis.abort()

    heard: list[tuple[str, str, str]] = []
    nodes = {number: FakeNode(number) for number in (1, 2, 3)}
    steps = [
        step_of("1-kill", "kill", "broker 1", AtAttempt(1), 60_000, 1),
        step_of("2-kill", "kill", "broker 2", AtAttempt(2), 60_000, 1),
        step_of("3-rolling-restart", "rolling-restart", "broker 3", AtAttempt(1), None, 1),
    ]
    rows, _ = play(tmp_path, steps, drive, heard=heard, nodes=nodes)
    assert [row["id"] for row in rows] == ["1-kill", "3-rolling-restart"]
    assert rows[0]["bit"] and rows[0]["healed_ns"] is None and rows[0]["brokers"] == [1]
    assert nodes[1].done == ["kill"] and nodes[2].done == []


def test_unexpected_exception_in_a_step_fails_the_run(tmp_path: Path) -> None:
    """A fault of kaput itself is not made a line of the evidence."""

    class Broken(FakeNode):
        def kill(self) -> int:
            raise ZeroDivisionError

    step = step_of("1-kill", "kill", "broker 1", AfterStart(0), 10, 1)
    with pytest.raises(ZeroDivisionError):
        play(tmp_path, [step], lambda _nemesis: None, node=Broken)


def test_message_thresholds_are_sorted(tmp_path: Path) -> None:
    """Those of steps by time are none."""
    steps = [
        step_of("1-noop", "noop", "all", AtAttempt(30), 10, 1),
        step_of("2-noop", "noop", "all", AfterStart(5), 10, 1),
        step_of("3-noop", "noop", "all", AtAttempt(7), 10, 1),
    ]

    def drive(nemesis: Nemesis) -> None:
        assert nemesis.thresholds == [7, 30]
        assert not nemesis.all_healed()
        nemesis.threshold(7)
        nemesis.threshold(30)

    rows, _ = play(tmp_path, steps, drive)
    assert [row["bit"] for row in rows] == [True] * 3 and rows[0]["brokers"] == [1, 2, 3]


def test_title_of_a_cut_includes_the_from_parties(tmp_path: Path) -> None:
    """Everybody goes without saying."""
    heard: list[tuple[str, str, str]] = []
    sides = [("clients", "controllers"), ("everybody",)]
    steps = [
        step_of(f"{i}-cut", "cut", "broker 1", AfterStart(0), 10, 1, {"from_": side})
        for i, side in enumerate(sides, start=1)
    ]
    rows, _ = play(tmp_path, steps, lambda _nemesis: None, heard=heard)
    assert {what for _, what, _ in heard} == {"cut broker 1 from clients, controllers", "cut broker 1"}
    # The loopback network refuses: the lab's trouble, and a row like any other.
    assert all("the injection failed: the loopback network cannot be broken" in row["proof"] for row in rows)
    assert not any(row["bit"] for row in rows)


def test_concurrent_steps_draw_targets_from_their_own_seeds(tmp_path: Path) -> None:
    """However many are at work at the same time; whom each draws is its seed's choice."""
    steps = [step_of(f"{i:02}-noop", "noop", "any", AfterStart(0), None, i) for i in range(1, 41)]
    heard: list[tuple[str, str, str]] = []

    def drive(nemesis: Nemesis) -> None:
        play_until(nemesis, lambda: len(heard) == 40)  # none of them ends before all have begun
        nemesis.workload_over()

    rows, _ = play(tmp_path, steps, drive, heard=heard)
    drawn = [resolve(parse_target("any"), FakeAdmin(), [1, 2, 3], seed) for seed in range(1, 41)]  # type: ignore[arg-type]
    assert [row["brokers"] for row in rows] == drawn


def test_steps_draw_group_members_from_their_own_seeds(tmp_path: Path) -> None:
    """As of brokers."""
    steps = [
        step_of(f"{i:02}-pause", "pause", "any member of billing", AfterStart(0), None, i) for i in range(16)
    ]
    heard: list[tuple[str, str, str]] = []

    def drive(nemesis: Nemesis) -> None:
        play_until(nemesis, lambda: len(heard) == 16)
        nemesis.workload_over()

    groups = FakeGroups()
    rows, _ = play(tmp_path, steps, drive, heard=heard, groups=groups)
    drawn = [
        resolve_members(parse_target("any member of billing"), groups, seed)[0].title for seed in range(16)
    ]  # type: ignore[arg-type]
    assert [row["target"] for row in rows] == drawn and len(set(drawn)) == 3


def test_added_brokers_are_targets_of_later_steps(tmp_path: Path) -> None:
    """By the same words as the others; the step that adds them hits none."""
    heard: list[tuple[str, str, str]] = []
    steps = [
        step_of("1-grow", "grow", "cluster", AfterStart(0), None, 1, {"brokers": 2}),
        step_of("2-noop", "noop", "all", AtAttempt(2), 10, 1),
    ]

    def drive(nemesis: Nemesis) -> None:
        play_until(nemesis, lambda: len(asked) == 1)
        nemesis.threshold(2)
        play_until(nemesis, lambda: ("2-noop", "noop all", "healed") in heard)
        nemesis.workload_over()

    asked: list[int] = []
    nodes = {number: FakeNode(number) for number in (1, 2, 3)}

    def grow(count: int) -> list[int]:
        added = [4, 5][:count]
        nodes.update({number: FakeNode(number) for number in added})
        asked.append(count)
        return added

    rows, _ = play(tmp_path, steps, drive, heard=heard, grow=grow, nodes=nodes, witness=Looker())
    assert asked == [2] and rows[0]["bit"] and rows[0]["brokers"] == []
    assert rows[0]["proof"].startswith("broker 4, broker 5 added")
    assert rows[1]["brokers"] == [1, 2, 3, 4, 5]


def test_grow_on_a_fixed_size_cluster_is_recorded_as_failed(tmp_path: Path) -> None:
    """As a fault that did not bite."""
    step = step_of("1-grow", "grow", "cluster", AfterStart(0), 10, 1, {"brokers": 2})
    (row,), _ = play(tmp_path, [step], lambda _nemesis: None)
    assert not row["bit"]
    assert row["proof"].startswith("the injection failed: this cluster cannot get more brokers")


def test_rolling_upgrade_step_upgrades_every_node(tmp_path: Path) -> None:
    """Through whoever has the distributions; without, nobody can."""
    step = step_of(
        "1-rolling-upgrade", "rolling-upgrade", "cluster", AfterStart(0), 10, 1, {"kafka": "4.3.1"}
    )
    nodes = {number: FakeNode(number) for number in (1, 2, 3)}

    def upgrade(node: int, version: str) -> None:
        nodes[node].version = version

    (row,), _ = play(tmp_path / "able", [step], lambda _nemesis: None, upgrade=upgrade, nodes=nodes)
    assert row["bit"] and [node.version for node in nodes.values()] == ["4.3.1"] * 3, row["proof"]
    assert row["brokers"] == [1, 2, 3], "whose ends are its doing, and no trouble of the lab"
    (row,), _ = play(tmp_path / "unable", [step], lambda _nemesis: None)
    assert not row["bit"] and "the nodes of this cluster cannot become Kafka 4.3.1" in row["proof"]


def test_abort_waits_for_injections_in_progress(tmp_path: Path) -> None:
    """When `abort` returns nothing is injected, recorded or waited for any more."""

    class Slow(FakeNode):
        def kill(self) -> int:
            started.set()
            assert aborting.wait(60)
            time.sleep(0.1)  # an abort that does not wait is back by now
            return super().kill()

    started, aborting = threading.Event(), threading.Event()
    seen: list[list[str]] = []

    def drive(nemesis: Nemesis) -> None:
        assert started.wait(60)
        aborting.set()
        nemesis.abort()
        (stream,) = (tmp_path / "evidence" / "faults").glob("*.arrows")
        with pa.ipc.open_stream(stream.read_bytes()) as reader:
            seen.extend([row["proof"] for row in batch.to_pylist()] for batch in reader)

    step = step_of("1-kill", "kill", "broker 1", AfterStart(0), 10, 1)
    play(tmp_path, [step], drive, node=Slow)
    assert [proof[:20] for (proof,) in seen] == ["injection not finish", "broker 1 (pid 1001):"]


def test_rules_are_named_after_their_step(tmp_path: Path) -> None:
    """Its rules bear the step's name."""
    network = FakeNetwork()
    step = step_of("7-cut", "cut", "broker 1", AfterStart(0), 10, 1, {"from_": ("broker 2",)})
    (row,), _ = play(tmp_path, [step], lambda _nemesis: None, network=network)
    assert row["bit"], row["proof"]
    assert set(network.counted) == {(1, "kaput_7_cut")}


def test_member_faults_record_members_and_no_brokers(tmp_path: Path) -> None:
    """The row names who was meant; a step without a duration lets nobody come back."""
    groups, heard = FakeGroups(), []  # type: ignore[var-annotated]
    steps = [
        step_of("1-kill", "kill", "any member of billing", AfterStart(0), 20, 1),
        step_of("2-stop", "stop", "members of billing", AtAttempt(2), 20, 1),
        step_of("3-kill", "kill", "member 2 of billing", AtAttempt(3), None, 1),
    ]

    def drive(nemesis: Nemesis) -> None:
        for number, healed in ((2, "1-kill"), (3, "2-stop")):
            play_until(
                nemesis,
                lambda healed=healed: healed in {step for step, _, state in heard if state != "injected"},
            )
            nemesis.threshold(number)
        play_until(
            nemesis,
            lambda: "3-kill" in {step for step, _, _ in heard} and not groups.member("billing", 2).running,
        )
        nemesis.workload_over()

    witness = Looker()
    rows, nodes = play(tmp_path, steps, drive, witness=witness, heard=heard, groups=groups)
    assert all(row["bit"] and row["brokers"] == [] for row in rows), rows
    drawn = rows[0]["target"]
    assert drawn in {f"member {i} of billing" for i in (1, 2, 3)} and drawn in rows[0]["proof"]
    assert [row["target"] for row in rows[1:]] == ["members 1, 2, 3 of billing", "member 2 of billing"]
    assert [member.running for member in groups.made] == [True, False, True]
    assert rows[2]["healed_ns"] is not None and "had a new owner" in rows[2]["proof"]
    assert all(node.done == [] for node in nodes.values())
    assert ("before", "1-kill", [], []) in witness.heard


def test_unknown_group_is_recorded_as_not_effective(tmp_path: Path) -> None:
    """As a fault that did not bite."""
    step = step_of("1-kill", "kill", "member 1 of billing", AfterStart(0), 20, 1)
    (row,), _ = play(tmp_path, [step], lambda _nemesis: None)
    assert not row["bit"] and "there is no group billing" in row["proof"]
    assert row["target"] == "member 1 of billing"


def test_producer_can_be_paused_and_unknown_ones_are_reported(tmp_path: Path) -> None:
    """And goes on; no broker is hit. One that nobody has is said."""
    groups = FakeGroups()
    steps = [
        step_of("1-pause", "pause", "producer 0", AfterStart(0), 20, 1),
        step_of("2-pause", "pause", "producer 4", AfterStart(0), 20, 1),
    ]
    rows, nodes = play(tmp_path, steps, lambda _nemesis: None, groups=groups, witness=Looker())
    assert [(row["target"], row["bit"], row["brokers"]) for row in rows] == [
        ("producer 0", True, []),
        ("producer 4", False, []),
    ]
    assert groups.producers[0].done == ["pause", "resume"]
    assert "there is no producer 4" in rows[1]["proof"]
    assert all(node.done == [] for node in nodes.values())


def test_killed_producer_is_started_again_only_after_a_duration(tmp_path: Path) -> None:
    """With `for` it comes back at the heal; without, it is gone for good."""
    done = []
    for lasts_ms in (20, None):
        groups = FakeGroups()
        steps = [step_of("1-kill", "kill", "producer 0", AfterStart(0), lasts_ms, 1)]
        (row,), _ = play(
            tmp_path / str(lasts_ms), steps, lambda nemesis: nemesis.workload_over(), groups=groups
        )
        assert row["bit"] and row["healed_ns"] is not None
        assert ("was started again" in row["proof"]) == (lasts_ms is not None)
        done.append(groups.producers[0].done)
    assert done == [["expect-return", "kill", "start"], ["kill"]]


class GrowingAdmin(FakeAdmin):
    """Its topic gets as many partitions as anybody asks for."""

    count = 1

    def add_partitions(self, topic: str, count: int) -> None:
        assert topic == "orders"
        self.count = count

    def partitions(self, topics: Any) -> dict[tuple[str, int], Any]:
        assert list(topics) == ["orders"]
        (state,) = super().partitions(["orders"]).values()
        return {("orders", number): state for number in range(self.count)}


def test_resized_topic_keeps_its_partitions(tmp_path: Path) -> None:
    """It hits no broker, takes effect at once, and is over when all has been sent."""
    step = step_of("1-resize", "resize", "topic orders", AfterStart(0), None, 1, {"partitions": 6})

    def drive(nemesis: Nemesis) -> None:
        play_until(nemesis, lambda: admin.count == 6)
        nemesis.workload_over()

    admin, heard = GrowingAdmin(), list[tuple[str, str, str]]()
    (row,), nodes = play(tmp_path, [step], drive, admin, witness=Looker(), heard=heard)
    assert [state for _, _, state in heard] == ["injected", "stays"]
    assert row["heal_began_ns"] == row["healed_ns"]
    assert row["bit"] and row["brokers"] == [] and row["target"] == "topic orders"
    assert row["healed_ns"] == row["effective_ns"] and row["proof"].endswith("; 6 at the end")
    assert all(node.done == [] for node in nodes.values())


class AnyGroup(FakeAdmin):
    """Broker 3 coordinates every group."""

    def coordinator(self, group: str) -> int:
        return 3


@pytest.mark.parametrize("group", ["billing", "two words"])
def test_coordinator_target_is_recorded_with_its_offsets_partition(group: str, tmp_path: Path) -> None:
    """The partition of __consumer_offsets that holds the group."""
    step = step_of("1-kill", "kill", f"coordinator-of {group}", AfterStart(0), 20, 1)
    rows, nodes = play(tmp_path, [step], lambda _nemesis: None, AnyGroup())
    assert rows[0]["target"] == f"coordinator-of {group} (__consumer_offsets/0)"
    assert nodes[3].done == ["kill", "start"]


class _Shell:
    """Commands of which nothing can be seen but that they were given."""

    def __init__(self) -> None:
        self.given: list[tuple[str, int, dict[str, str]]] = []

    def run(
        self, step: str, kind: str, broker: int, line: str, known: Mapping[str, str], timeout_s: float
    ) -> CommandResult:
        if kind != "prove":
            self.given.append((line, broker, dict(known)))
        broken = self.given[-1:] and self.given[-1][0] == "break"
        return CommandResult(0 if kind != "prove" or broken else 1)

    def add_pending_heal(
        self, step: str, brokers: Sequence[int], options: CommandOptions, known: Mapping[str, str]
    ) -> None:
        """Not looked at here."""

    def heal_done(self, step: str) -> None:
        """Nor this."""


def _commanding(path: Path, steps: list[Step]) -> tuple[Nemesis, _Shell, Recorder]:
    """A nemesis without a process of its own, as on a cluster that was there before."""
    shell, recorder = _Shell(), Recorder(path, "faults", "nemesis")
    nemesis = Nemesis(
        steps,
        Surroundings(
            nodes={},
            network=Loopback(),
            brokers=lambda: [1, 2, 3],
            admin=FakeAdmin(),  # type: ignore[arg-type]
            topics=["orders"],
            commands=shell,
        ),
        on_record=into(recorder),
    )
    return nemesis, shell, recorder


COMMANDS = {"inject": "break", "heal": "mend", "prove": "look", "timeout": 60_000}


def test_command_fault_is_healed_when_the_run_is_aborted(tmp_path: Path) -> None:
    """A command has broken somebody's broker: Ctrl-C must not leave it so."""
    step = step_of("1-command", "command", "leader-of orders/0", AfterStart(0), 3_600_000, 1, COMMANDS)
    nemesis, shell, recorder = _commanding(tmp_path, [step])
    with recorder:
        nemesis.start()
        play_until(nemesis, lambda: bool(shell.given))
        nemesis.abort()
    known = {"topic": "orders", "partition": "0"}
    assert shell.given == [("break", 2, known), ("mend", 2, known)]


def test_command_on_a_broker_has_empty_topic_and_partition(tmp_path: Path) -> None:
    """What its line may name is empty then."""
    step = step_of("1-command", "command", "broker 3", AfterStart(0), 10, 1, COMMANDS)
    nemesis, shell, recorder = _commanding(tmp_path, [step])
    with recorder:
        nemesis.start()
        play_until(nemesis, nemesis.all_healed)
        nemesis.abort()
    known = {"topic": "", "partition": ""}
    assert shell.given == [("break", 3, known), ("mend", 3, known)]
    seal(RunFolder(tmp_path))
    (path,) = (tmp_path / "evidence" / "faults").glob("*.parquet")
    (row,) = pq.read_table(path).to_pylist()
    assert (row["target"], row["brokers"], row["bit"]) == ("broker 3", [3], True)


def test_noop_is_effective_on_an_existing_cluster(tmp_path: Path) -> None:
    """noop does that, and proves it."""
    nemesis, shell, recorder = _commanding(tmp_path, [step_of("1-noop", "noop", "any", AfterStart(0), 1, 1)])
    with recorder:
        nemesis.start()
        play_until(nemesis, nemesis.all_healed)
        nemesis.abort()
    seal(RunFolder(tmp_path))
    (path,) = (tmp_path / "evidence" / "faults").glob("*.parquet")
    (row,) = pq.read_table(path).to_pylist()
    assert row["bit"] and row["proof"] == "nothing done" and shell.given == []


@pytest.mark.parametrize("fault", ["kill", "pause"])
def test_store_fault_is_recorded_by_store_name(fault: str, tmp_path: Path) -> None:
    """Proven as on a broker; no broker is touched, and none has to be looked at first."""
    store, witness = FakeNode(1), Looker()
    asked: list[str] = []

    def target(name: str) -> FakeNode:
        asked.append(name)
        return store

    step = step_of(f"1-{fault}", fault, "store far", AfterStart(0), 20, 1)
    (row,), nodes = play(tmp_path, [step], lambda _: None, witness=witness, store=target)
    assert asked == ["far"] and row["target"] == "store far" and row["brokers"] == []
    assert row["bit"] and row["healed_ns"] > row["effective_ns"]
    assert store.done == (["kill", "start"] if fault == "kill" else ["pause", "resume"])
    assert all(node.done == [] for node in nodes.values()) and witness.heard == []


def test_unknown_store_is_recorded_as_not_effective(tmp_path: Path) -> None:
    """On a lab without stores."""
    step = step_of("1-kill", "kill", "store far", AfterStart(0), 20, 1)
    (row,), _ = play(tmp_path, [step], lambda _: None)
    assert not row["bit"] and "there is no store far" in row["proof"]
