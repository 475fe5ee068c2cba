"""The steps of a plan without a cluster: what clients and mirrors are given, and the proofs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from confluent_kafka import Producer

from fakes.plan_world import FakeAdmin, FakeClients, FakeCluster, FakeMirrors, world_of
from kaput.cluster.existing_cluster import ExistingCluster
from kaput.core import TopicPartition
from kaput.errors import LabError
from kaput.evidence.folder import RunFolder
from kaput.evidence.recorder import Recorder
from kaput.evidence.sealing import seal
from kaput.runner.plan.plan import RunningPlan
from kaput.runner.plan.steps import STEPS
from kaput.runner.plan.world import PlanWorld
from kaput.scenario.model import Scenario
from kaput.scenario.plan import KEYS, PlanStep
from kaput.workload.librdkafka.client_setup import quiet_logger
from waiting import eventually

MIRROR = {"from": "dc1", "to": "dc2", "topics": ["orders"], "groups": ["billing"]}
BACK = {"from": "dc2", "to": "dc1", "topics": ["orders"], "groups": ["billing"], "start": "by-plan"}


def scenario(plan: list[dict[str, Any]]) -> Scenario:
    """Two producers and a group in dc1, a third producer in dc2."""
    sends = {"topic": "orders", "messages": 10}
    return Scenario.model_validate(
        {
            "version": 1, "title": "x", "clusters": {"dc1": {"brokers": 1}, "dc2": {"brokers": 1}},
            "mirrors": [MIRROR, BACK],
            "topics": [{"name": "orders", "partitions": 2, "replication-factor": 1}],
            "workload": {
                "producers": [{**sends, "count": 2}, {**sends, "cluster": "dc2"}],
                "groups": [{"id": "billing", "topics": ["orders"]}],
            },
            "plan": plan,
        }
    )  # fmt: skip


class Played:
    """A plan that has been played, and what came of it."""

    def __init__(self, folder: Path, *steps: dict[str, Any]) -> None:
        self.scenario = scenario([{"at": 0, **steps[0]}, *steps[1:]])
        self.world: PlanWorld
        self.clients: FakeClients
        self.mirrors: FakeMirrors
        self.world, self.clients, self.mirrors = world_of(self.scenario, folder)
        self._folder, self._recorder = folder, Recorder(folder, "plan", "kaput")
        self.said: list[str] = []
        self.plan = RunningPlan(self.scenario.plan, self.world, self._recorder, self.said.append)

    def rows(self, table: str = "plan") -> list[dict[str, Any]]:
        if self._recorder is not None:
            self.plan.start()
            assert eventually(self.plan.all_ended, 30)
            self._recorder.close()
            self.world.rows.close()
            self._recorder = None  # type: ignore[assignment]
            seal(RunFolder(self._folder))
        found = ds.dataset(RunFolder(self._folder).table(table)).to_table().to_pylist()
        return list(found)


def test_every_scenario_step_is_implemented() -> None:
    """None is only a word."""
    assert set(STEPS) == set(KEYS)


def test_complete_failover_plan(tmp_path: Path) -> None:
    """In the order of the file; clients that are there stay there."""
    played = Played(
        tmp_path,
        {"step": "notice"}, {"step": "fence", "cluster": "dc1"},
        {"step": "promote", "mirror": "dc1->dc2"}, {"step": "move-producers", "to": "dc2"},
        {"step": "move-groups", "to": "dc2"}, {"step": "heal"},
    )  # fmt: skip
    played.mirrors.missing = ["the last ten"]
    played.clients.given_up = 3
    rows = played.rows()
    assert [(row["step"], row["outcome"]) for row in rows] == [
        ("1 notice", "done"), ("2 fence", "done"), ("3 promote", "done"), ("4 move-producers", "done"),
        ("5 move-groups", "done"), ("6 heal", "done"),
    ]  # fmt: skip
    assert played.clients.told == [
        ("hold", [0, 1]), ("move", [0, 1], "dc2"), ("leave", ["billing"], True), ("join", ["billing"], "dc2"),
    ]  # fmt: skip
    assert played.mirrors.told == [("stop", "dc1->dc2", 10.0)]
    proofs = [row["proof"] for row in rows]
    assert proofs[1] == "2 producers stopped within 1.0 s, with the outcome of 6 messages unknown"
    assert proofs[2].startswith("the last ten; the mirror has ended")
    there = r"2 producers continued in dc2; each had its first acknowledgement there within .* m?s"
    assert re.fullmatch(there, proofs[3]), proofs[3]
    assert proofs[4] == "billing continued in dc2: orders/0 at 7, orders/1 at 4"
    assert re.fullmatch(r"ended: 1-isolate; all clusters answer (\d+ ms|0\.\d s) later", proofs[5])
    translated = [
        (row["partition"], row["source_offset"], row["target_offset"]) for row in played.rows("mirror")
    ]
    assert translated == [(0, 10, 7), (1, None, 4)]
    assert played.said[:3] == ["plan: notice", "plan: notice done: dc1 answers", "plan: fence dc1"]
    assert played.said[6] == "plan: move-producers to dc2"


def test_moved_producers_are_awaited(tmp_path: Path) -> None:
    """Each of them; and one that is never acknowledged anything is counted."""
    played = Played(tmp_path, {"step": "move-producers", "to": "dc2"})
    played.clients.mute = frozenset({1})
    proof = played.rows()[0]["proof"]
    assert re.fullmatch(
        r"2 producers continued in dc2; 1 of them had no acknowledgement there within 5\.\d s", proof
    )
    assert played.clients.looks > 20


@pytest.mark.parametrize(
    ("wait", "wanted"),
    [
        ("15s", r"positions of groups were final within 0\.[5-9] s of that \(watched for 2\.\d s more\)"),
        ("1s", r"positions of groups may not be final: unchanged for 0\.\d s, which is less than 2\.0 s"),
    ],
)
def test_positions_are_final_since_they_last_moved(tmp_path: Path, wait: str, wanted: str) -> None:
    """For twice the mirror's interval; the time in which they were only watched is named apart."""
    played = Played(tmp_path, {"step": "promote", "mirror": "dc1->dc2", "wait": wait})
    admin = played.world.cluster("dc2").admin
    looks = iter(range(5))
    committed_after = lambda _group: {TopicPartition("orders", 0): next(looks, 5)}  # noqa: E731
    object.__setattr__(admin, "committed", committed_after)
    (row,) = played.rows()
    assert re.match(rf"everything was copied after 1 ms, and {wanted};", row["proof"]), row["proof"]


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.64, "2.6 s"), (0.1, "0.1 s"), (0.0162, "16 ms"), (0.00001, "1 ms")]
)
def test_short_durations_are_in_milliseconds(tmp_path: Path, seconds: float, text: str) -> None:
    """None is 0.0 s."""
    played = Played(tmp_path, {"step": "fence", "cluster": "dc1"})
    played.clients.stops_after_s = seconds
    (row,) = played.rows()
    assert row["proof"] == f"2 producers stopped within {text}, with the outcome of 0 messages unknown"


def test_promote_does_not_wait_for_an_unreachable_source(tmp_path: Path) -> None:
    """Its mirror has nothing left to copy, and is killed soon."""
    played = Played(tmp_path, {"step": "notice", "cluster": "dc1"}, {"step": "promote", "mirror": "dc1->dc2"})
    cluster = played.world.cluster("dc1")
    assert isinstance(cluster, FakeCluster)
    cluster.silent = True
    notice, promote = played.rows()
    assert notice["proof"] == "no broker of dc1 answers: 10.77.0.1:9092: timed out"
    assert promote["proof"].startswith("dc1 does not answer: how much is missing is not known")
    assert played.mirrors.told == [("stop", "dc1->dc2", 1.0)]


def test_a_step_that_fails_does_not_end_the_plan(tmp_path: Path) -> None:
    """It says why, and the next one is tried; producers that were held go on where they were."""
    played = Played(
        tmp_path, {"step": "fence", "cluster": "dc1"}, {"step": "fence", "cluster": "dc1", "how": "kill"}
    )
    rows = played.rows()
    assert [row["outcome"] for row in rows] == ["done", "failed"]
    assert rows[1]["proof"] == "no node of dc1 runs here"
    assert played.clients.told[-1] == ("move", [0, 1], "dc1") and not played.world.held


def test_fail_back_stops_the_reverse_mirror(tmp_path: Path) -> None:
    """The mirror back begins where the clients came, and is stopped before they go."""
    played = Played(
        tmp_path, {"step": "promote", "mirror": "dc1->dc2"}, {"step": "move-producers", "to": "dc2"},
        {"step": "move-groups", "to": "dc2"}, {"step": "mirror-back", "mirror": "dc2->dc1"},
        {"step": "fail-back", "to": "dc1"},
    )  # fmt: skip
    rows = played.rows()
    assert [row["outcome"] for row in rows] == ["done"] * 5, rows
    kinds = [each[0] for each in played.mirrors.told]
    assert kinds == ["stop", "begin", "start", "stop"]
    assert played.mirrors.told[1][2] == dict.fromkeys((TopicPartition("orders", n) for n in range(2)), 101)
    assert [each for each in played.clients.told if each[0] in ("move", "join")][-2:] == [
        ("move", [0, 1, 2], "dc1"), ("join", ["billing"], "dc1"),
    ]  # fmt: skip


def test_fail_back_is_refused_while_the_mirror_lags(tmp_path: Path) -> None:
    """Clients are not even held: they go on where they are."""
    played = Played(tmp_path, {"step": "fail-back", "to": "dc2", "mirror": "dc1->dc2"})
    played.mirrors.missing = ["the last ten"]
    (row,) = played.rows()
    assert (row["outcome"], row["proof"]) == ("failed", "clients stay in dc1: the last ten")
    assert played.clients.told == [] and played.mirrors.told == []


def test_only_some_producers_are_moved(tmp_path: Path) -> None:
    """By number; a plan can split them over both clusters."""
    played = Played(tmp_path, {"step": "move-producers", "to": "dc2", "producers": [1]})
    played.rows()
    assert played.clients.told == [("hold", [1]), ("move", [1], "dc2")]


@pytest.mark.parametrize(("positions", "wanted"), [("earliest", 3), ("latest", 90)])
def test_moved_groups_start_at_the_requested_positions(tmp_path: Path, positions: str, wanted: int) -> None:
    """At the start, or at the end that readers of committed messages see. A mock of a cluster keeps it."""
    played = Played(tmp_path, {"step": "move-groups", "to": "dc2", "positions": positions})
    mock = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1}, logger=quiet_logger())
    (broker,) = mock.list_topics("orders", timeout=30).brokers.values()
    played.world.cluster("dc2").kafka = kafka = ExistingCluster(f"{broker.host}:{broker.port}")
    kafka.refresh()
    (row,) = played.rows()
    places = [TopicPartition("orders", number) for number in range(2)]
    assert row["outcome"] == "done", row
    with kafka.admin() as admin:
        assert admin.committed("billing", places) == dict.fromkeys(places, wanted)


def test_clients_that_are_late_are_a_failed_step(tmp_path: Path) -> None:
    played = Played(tmp_path, {"step": "move-producers", "to": "dc2"})
    played.clients.late = ["producer-0 has not moved within 60 s"]
    (row,) = played.rows()
    assert (row["outcome"], row["proof"]) == ("failed", "producer-0 has not moved within 60 s")


def test_steps_not_reached_are_skipped(tmp_path: Path) -> None:
    """With all that would have followed them."""
    played = Played(
        tmp_path, {"step": "decide", "takes": 0}, {"step": "notice", "at": "3600s"}, {"step": "heal"}
    )
    played.plan.load_over()
    played.scenario.plan[0].__dict__["at"] = None
    rows = played.rows()
    assert [row["outcome"] for row in rows] == ["done", "skipped", "skipped"]
    assert rows[1]["ended_ns"] is None and rows[2]["proof"] == "the load was over before the step was due"


def test_notice_waits_until_the_cluster_is_unreachable(tmp_path: Path) -> None:
    """For as long as it says, without an answer in between."""
    played = Played(tmp_path, {"step": "decide"}, {"step": "notice", "when": "unreachable for 300ms"})
    object.__setattr__(played.world.cluster("dc1"), "silent", True)
    decided, noticed = played.rows()
    assert 0.29e9 <= noticed["started_ns"] - decided["ended_ns"] < 3e9


def test_internal_error_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only trouble of the lab is a failed step."""
    played = Played(tmp_path, {"step": "heal"})
    played.world.heal = lambda: 1 // 0  # type: ignore[assignment, return-value]
    played.plan.start()
    with pytest.raises(ZeroDivisionError):
        eventually(played.plan.all_ended, 30)


def test_unknown_cluster_or_mirror_is_an_error(tmp_path: Path) -> None:
    """A step never does something else instead."""
    played = Played(tmp_path, {"step": "heal"})
    with pytest.raises(LabError, match="there is no cluster dc3"):
        played.world.cluster("dc3")
    with pytest.raises(LabError, match="there is no mirror dc9->dc8"):
        STEPS["promote"](played.world, PlanStep(step="promote", mirror="dc9->dc8"))
    assert isinstance(played.world.cluster(None).admin, FakeAdmin)
