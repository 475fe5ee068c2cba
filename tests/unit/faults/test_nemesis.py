"""The nemesis plays a timeline: triggers, durations, overlap, and steps whose time never comes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow.parquet as pq

from fakes.cluster import FakeAdmin, FakeNode
from kaput.cluster.network.loopback import Loopback
from kaput.evidence.folder import RunFolder
from kaput.evidence.recorder import Recorder
from kaput.evidence.sealing import seal
from kaput.faults.nemesis import Nemesis
from kaput.scenario.timeline import AfterStart, AtMessage, Step


def play(
    tmp_path: Path,
    steps: list[Step],
    drive: Callable[[Nemesis], None],
    admin: FakeAdmin | None = None,
    witness: Looker | None = None,
) -> tuple[list[dict[str, object]], dict[int, FakeNode]]:
    """Plays `steps` with `drive`; the rows of the faults table and the nodes."""
    nodes = {i: FakeNode(i) for i in (1, 2, 3)}
    if witness is not None:
        witness.nodes = nodes
    with Recorder(tmp_path, "faults", "nemesis") as recorder:
        nemesis = Nemesis(
            steps,
            nodes,  # type: ignore[arg-type]
            Loopback(),
            [1, 2, 3],
            admin or FakeAdmin(),  # type: ignore[arg-type]
            ["orders"],
            recorder,
            lambda _step, _what, _active: None,
            witness=witness,
        )
        nemesis.start()
        drive(nemesis)
        limit = time.monotonic() + 10
        while not nemesis.all_healed():
            assert time.monotonic() < limit
            time.sleep(0.005)
        nemesis.abort()
    seal(RunFolder(tmp_path))
    (path,) = (tmp_path / "evidence" / "faults").glob("*.parquet")
    return sorted(pq.read_table(path).to_pylist(), key=lambda row: str(row["id"])), nodes


def test_a_threshold_injects_and_the_duration_heals(tmp_path: Path) -> None:
    """A step at message N waits for N, bites its target, and heals after its duration."""
    step = Step("1-kill", "kill", "leader-of orders/0", AtMessage(30), 50, 1)
    rows, nodes = play(tmp_path, [step], lambda nemesis: nemesis.threshold(30))
    assert nodes[2].done == ["kill", "start"] and nodes[1].done == []
    (row,) = rows
    assert row["bit"] and row["brokers"] == [2]
    assert row["healed_ns"] - row["effective_ns"] >= 50_000_000  # type: ignore[operator]


class Looker:
    """Notes what the nemesis says, and what had been done to the nodes by then."""

    def __init__(self) -> None:
        self.nodes: dict[int, FakeNode] = {}
        self.heard: list[tuple[object, ...]] = []

    def before(self, step: str, nodes: Sequence[int]) -> None:
        self.heard.append(("before", step, list(nodes), [list(self.nodes[i].done) for i in nodes]))

    def after(self, step: str) -> None:
        self.heard.append(("after", step, self.nodes[2].done))


def test_a_witness_is_told_before_a_fault_takes_hold(tmp_path: Path) -> None:
    """It can look at what the targets have while they still are as they were, and hears of the heal."""
    witness = Looker()
    step = Step("1-kill", "kill", "leader-of orders/0", AfterStart(0), 20, 1)
    play(tmp_path, [step], lambda _nemesis: None, witness=witness)
    assert witness.heard == [("before", "1-kill", [2], [[]]), ("after", "1-kill", ["kill", "start"])]


def test_faults_overlap(tmp_path: Path) -> None:
    """A kill may fall into a pause: each has its own thread, target and proof."""
    steps = [
        Step("1-pause", "pause", "followers-of orders/0", AfterStart(0), 300, 1),
        Step("2-kill", "kill", "leader-of orders/0", AfterStart(100), 50, 2),
    ]
    rows, nodes = play(tmp_path, steps, lambda _nemesis: None)
    pause, kill = rows
    assert pause["injected_ns"] < kill["injected_ns"] < kill["healed_ns"] < pause["healed_ns"]  # type: ignore[operator]
    assert nodes[1].done == nodes[3].done == ["pause", "resume"]


def test_without_duration_the_end_of_the_workload_heals(tmp_path: Path) -> None:
    """A fault that is meant to stay heals once every attempt is made."""

    def drive(nemesis: Nemesis) -> None:
        nemesis.threshold(1)
        time.sleep(0.1)
        assert not nemesis.all_healed()
        nemesis.workload_over()

    rows, nodes = play(tmp_path, [Step("1-kill", "kill", "broker 1", AtMessage(1), None, 1)], drive)
    assert rows[0]["healed_ns"] is not None and nodes[1].running


def test_a_step_whose_time_never_came_did_not_bite(tmp_path: Path) -> None:
    """The workload ended first: the step is recorded, unbitten, with the reason."""
    steps = [
        Step("1-kill", "kill", "broker 1", AtMessage(999), 10, 1),
        Step("2-stop", "stop", "broker 2", AfterStart(60_000), 10, 1),
    ]
    rows, nodes = play(tmp_path, steps, lambda nemesis: nemesis.workload_over())
    assert [row["bit"] for row in rows] == [False, False]
    assert "workload ended" in str(rows[0]["proof"]) and nodes[1].done == []


def test_a_target_that_is_nobody_did_not_bite(tmp_path: Path) -> None:
    """A target that cannot be resolved is recorded with the reason, not raised."""
    step = Step("1-kill", "kill", "leader-of orders/0", AfterStart(0), 10, 1)
    rows, _ = play(tmp_path, [step], lambda _nemesis: None, FakeAdmin(leader=None))
    assert not rows[0]["bit"] and "no leader" in str(rows[0]["proof"])
