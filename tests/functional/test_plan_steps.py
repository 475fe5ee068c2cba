"""A plan on two real clusters: clients leave one and go on in the other, and each step leaves its proof."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from kaput.core import TopicPartition
from kaput.errors import LabError
from kaput.evidence.folder import RunFolder
from kaput.evidence.recorder import Recorder
from kaput.evidence.sealing import seal
from kaput.operate.standing_cluster import StandingCluster
from kaput.processes.ownership import Owner
from kaput.runner.plan.plan import RunningPlan
from kaput.runner.plan.world import PlanWorld
from kaput.runner.run_cluster import RunCluster
from kaput.scenario.mirrors import Mirror
from kaput.scenario.model import Scenario
from kaput.workload.supervision.supervisor import Supervisor
from streams import rows_so_far
from waiting import PATIENCE_S, eventually, wait_for

MESSAGES = 4000


class NoMirrors:
    """Clusters that nothing is copied between: what a plan does with clients needs no mirror."""

    def mirror(self, name: str) -> Mirror:
        raise LabError(f"there is no mirror {name}")

    def start(self, name: str) -> None:
        raise LabError(f"there is no mirror {name}")

    def await_ready(self) -> None:
        """None was started."""

    def stop(self, name: str, patience_s: float) -> None:
        raise LabError(f"there is no mirror {name}")

    def set_start_offsets(self, name: str, ends: Mapping[TopicPartition, int]) -> None:
        """Nothing begins."""

    def copied(self, name: str, wait_s: float) -> list[str]:
        raise LabError(f"there is no mirror {name}")


class Centers:
    """Two clusters of one broker, and clients that begin in the first one."""

    def __init__(self, stack: ExitStack, owner: Owner, path: Path, plan: list[dict[str, Any]]) -> None:
        self.labs = {name: stack.enter_context(StandingCluster(brokers=1)) for name in ("dc1", "dc2")}
        for lab in self.labs.values():
            lab.create_topic("orders", partitions=2, replication_factor=1)
        self.scenario = Scenario.model_validate(_raw(plan))
        path.mkdir()
        self.folder = RunFolder(path)
        self.supervisor = Supervisor(
            owner, self.scenario, self.folder, uuid.UUID(int=5), self.labs["dc1"].bootstrap_servers, [],
            lambda n, at_ns: None,
        )  # fmt: skip
        clusters = {name: RunCluster(name, lab._cluster, self.scenario) for name, lab in self.labs.items()}
        for name, lab in self.labs.items():
            clusters[name].admin = lab._admin
        rows = stack.enter_context(Recorder(path, "mirror", "plan"))
        world = PlanWorld(self.scenario, clusters, NoMirrors(), self.supervisor, lambda: [], rows)
        recorder = stack.enter_context(Recorder(path, "plan", "kaput"))
        self.plan = RunningPlan(self.scenario.plan, world, recorder, lambda text: None)
        stack.callback(self.plan.abort)

    def play(self) -> None:
        """Load and plan, to the end of both."""
        self.supervisor.start()
        self.supervisor.go()
        self.plan.start()
        wait_for(self.plan.all_ended, "the end of the plan", PATIENCE_S)
        wait_for(lambda: self.supervisor.all_reported("done"), "the end of all producers", PATIENCE_S)

    def sealed(self, stack: ExitStack) -> None:
        """Everything has ended: clients, then clusters and recorders, then the evidence is sealed."""
        self.supervisor.stop_members()
        stack.close()
        seal(self.folder)

    def rows(self, table: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = ds.dataset(self.folder.table(table)).to_table().to_pylist()
        return found


def _raw(plan: list[dict[str, Any]]) -> dict[str, Any]:
    one = {"brokers": 1}
    topic = {"name": "orders", "partitions": 2, "replication-factor": 1}
    return {
        "version": 1, "title": "x", "clusters": {"dc1": one, "dc2": one},
        "topics": [topic, {**topic, "cluster": "dc2"}],
        "workload": {
            "producers": [{"topic": "orders", "messages": MESSAGES, "rate": 500, "config": {"linger.ms": 1}}],
            "groups": [{"id": "billing", "topics": ["orders"], "members": 2}],
        },
        "plan": plan,
    }  # fmt: skip


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Ends what a test has started."""
    with ExitStack() as last:
        yield last


def _await_reading(centers: Centers) -> None:
    """Every step was done, and everything that was sent to dc2 has been delivered there."""
    steps = rows_so_far(centers.folder.table("plan"))
    assert [row["outcome"] for row in steps] == ["done"] * len(steps), [row["proof"] for row in steps]

    def there(table: str) -> int:
        return sum(row["cluster"] == "dc2" for row in rows_so_far(centers.folder.table(table)))

    assert eventually(lambda: there("deliveries") >= there("sends"))


@pytest.mark.long
def test_clients_switch_over_from_a_live_cluster(stack: ExitStack, owner: Owner, tmp_path: Path) -> None:
    """Nothing is lost and nothing is read twice: each message is in one cluster, and was read there, unless
    it was behind the position at which the group left (on a busy machine it is not always at the end).
    """
    plan = [
        {"step": "notice", "at": "2s"},
        {"step": "decide", "takes": "500ms"},
        # A cold broker on a busy machine takes its time to acknowledge.
        {"step": "fence", "cluster": "dc1", "settle": "5m"},
        {"step": "move-producers", "to": "dc2", "settle": "5m"},
        {"step": "move-groups", "to": "dc2", "positions": "earliest", "settle": "5m"},
    ]
    centers = Centers(stack, owner, tmp_path / "run", plan)
    centers.play()
    _await_reading(centers)
    centers.sealed(stack)
    steps = centers.rows("plan")
    assert [(row["step"], row["outcome"]) for row in steps] == [
        (f"{number} {step['step']}", "done") for number, step in enumerate(plan, start=1)
    ]
    assert steps[0]["proof"] == "dc1 answers" and "1 producer stopped" in steps[2]["proof"]
    assert "1 producer continued in dc2; it had its first acknowledgement there" in steps[3]["proof"]
    assert steps[4]["proof"] == "billing continued in dc2: orders/0 at 0, orders/1 at 0"
    assert all(row["started_ns"] <= row["ended_ns"] for row in steps)
    sends = {row["seq"]: row["cluster"] for row in centers.rows("sends") if row["outcome"] == "acked"}
    assert len(sends) == MESSAGES and set(sends.values()) == {"dc1", "dc2"}
    read_at = [(row["seq"], row["cluster"]) for row in centers.rows("deliveries")]
    assert len(set(read_at)) == len(read_at) and set(read_at) <= set(sends.items())
    assert {seq for seq, cluster in sends.items() if cluster == "dc2"} <= {seq for seq, _ in read_at}
    translated = [row for row in centers.rows("mirror") if row["kind"] == "translated"]
    assert [(row["mirror"], row["group"], row["target_offset"]) for row in translated] == [
        ("dc1->dc2", "billing", 0)
    ] * 2
    here = sum(cluster == "dc1" for _, cluster in read_at)
    assert here > 0
    assert sum(row["source_offset"] for row in translated) == here


@pytest.mark.long  # its sibling: test_failover_runs.py, where a whole run fails over by a plan
def test_clients_fail_over_from_a_killed_cluster(stack: ExitStack, owner: Owner, tmp_path: Path) -> None:
    """Noticed because no broker answers; what was in flight is unknown, and the rest goes on."""
    plan = [
        {"step": "fence", "at": "2s", "cluster": "dc1", "how": "kill"},
        {"step": "notice", "when": "unreachable for 1s"},
        {"step": "move-producers", "to": "dc2", "settle": "500ms"},
        {"step": "move-groups", "to": "dc2", "positions": "earliest", "settle": "500ms"},
    ]
    centers = Centers(stack, owner, tmp_path / "run", plan)
    began = time.monotonic()
    centers.play()
    took_s = time.monotonic() - began
    _await_reading(centers)
    centers.sealed(stack)
    steps = centers.rows("plan")
    assert [row["outcome"] for row in steps] == ["done"] * 4, [row["proof"] for row in steps]
    assert "SIGKILL, all gone" in steps[0]["proof"] and "no broker of dc1 answers" in steps[1]["proof"]
    noticed_s = (steps[1]["started_ns"] - steps[0]["ended_ns"]) / 1e9
    assert noticed_s >= 1.0 and took_s < PATIENCE_S
    outcomes = {
        cluster: {row["outcome"] for row in centers.rows("sends") if row["cluster"] == cluster}
        for cluster in ("dc1", "dc2")
    }
    assert outcomes == {"dc1": {"acked", "unknown"}, "dc2": {"acked"}}
    assert sorted(row["seq"] for row in centers.rows("sends")) == list(range(MESSAGES))
