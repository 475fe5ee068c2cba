"""The fault in the protocol: what it tells proxies, and that its proof is of frames and of nothing else."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fakes.cluster import FakeNode, fake_scene
from fakes.nemesis import play as play_steps
from fakes.nemesis import play_until
from fakes.steps import step_of
from kaput.cluster.frames.error_answers import ErrorAnswer
from kaput.cluster.frames.frame_proxy import FrameCounts, FrameRule, OnFrame, SeenFrame
from kaput.errors import LabError
from kaput.evidence.recorder import Recorder
from kaput.faults.fault import Effect, FrameLog
from kaput.faults.nemesis import Nemesis
from kaput.faults.protocol import Protocol
from kaput.scenario.timeline import AtEvent
from streams import rows_so_far


class FakeProxy:
    """A proxy that sees a few frames as soon as it has a rule; `works`: it acts on the first of them;
    `waits`: they come later.
    """

    def __init__(self, *, works: bool = True, ends: bool = True, waits: bool = False) -> None:
        self.works, self.ends, self.waits = works, ends, waits
        self.rule: FrameRule | None = None
        self.on_frame: OnFrame | None = None

    def put(self, rule: FrameRule, on_frame: OnFrame) -> None:
        self.rule, self.on_frame = rule, on_frame
        if not self.waits:
            self.come()

    def come(self) -> None:
        assert self.on_frame is not None
        for number in (7, 8):
            acted = self.works and number == 7
            self.on_frame(SeenFrame(time.time_ns(), acted, 1, number, "app", "10.0.0.9:4000"))

    def end(self, rule_id: str) -> FrameCounts:
        if not self.ends:
            raise LabError("the proxy of broker 1 has ended")
        return FrameCounts(1200, 2, int(self.works))


def node(number: int, proxy: FakeProxy | None = None, *, running: bool = True) -> Any:
    """A broker behind that proxy."""
    made = FakeNode(number, running=running)
    made.proxy = FakeProxy() if proxy is None else proxy  # type: ignore[attr-defined]
    return made


DELAYED = {"api": "EndTxn", "what": "delay", "delay": 5000, "from_": ("clients",)}


def play(*nodes: Any, fault: Protocol | None = None, **options: Any) -> tuple[int | None, Effect]:
    """Injects and heals a delay of EndTxn, unless the options are others."""
    given = {**DELAYED, **options}
    made = fault or Protocol(fake_scene("protocol", *nodes, step="1-protocol", **given))
    early = made.inject(nodes)
    assert not early.confirmed and early.effective_ns is None
    return made.heal(nodes, early)


def test_protocol_fault_is_effective_from_the_first_modified_frame() -> None:
    """The proof has the counts of each broker, and all that is known of that frame."""
    before = time.time_ns()
    healed, effect = play(node(1))
    assert effect.confirmed and effect.effective_ns is not None and healed is not None
    assert before <= effect.effective_ns <= healed
    assert "EndTxn requests from clients" in effect.proof
    assert "broker 1: 1,200 requests seen, 2 matched, 1 delayed by 5s" in effect.proof
    assert "version 1, correlation id 7, client app, connection 10.0.0.9:4000" in effect.proof


def test_step_that_waits_for_the_effect_begins_with_the_first_modified_frame(tmp_path: Path) -> None:
    """Not with the injection, when nothing was modified yet, nor as late as the heal."""
    steps = [
        step_of("1-protocol", "protocol", "broker 1", duration_ms=60_000, options=DELAYED),
        step_of("2-kill", "kill", "broker 2", AtEvent("effect", "1-protocol"), 50),
        step_of("3-protocol", "protocol", "broker 3", duration_ms=10, options=DELAYED),
    ]
    nodes, heard = {number: node(number) for number in (1, 2, 3)}, list[tuple[str, str, str]]()
    proxy, nodes[3].proxy = FakeProxy(waits=True), FakeProxy(works=False)
    nodes[1].proxy = proxy

    def drive(nemesis: Nemesis) -> None:
        play_until(nemesis, lambda: proxy.on_frame is not None)
        assert not nodes[2].done and not nemesis.has_acted("1-protocol")
        proxy.come()
        play_until(nemesis, lambda: ("2-kill", "kill broker 2", "healed") in heard)
        play_until(nemesis, lambda: ("3-protocol", "protocol broker 3 from clients", "healed") in heard)
        assert [nemesis.has_acted(step.id) for step in steps] == [True, True, False]
        nemesis.workload_over()
        nemesis.heal_now()

    protocol, kill, _ = play_steps(tmp_path, steps, drive, heard=heard, nodes=nodes)[0]
    assert protocol["effective_ns"] == kill["event_ns"] <= kill["noticed_ns"] <= kill["effective_ns"]
    assert protocol["healed_ns"] > kill["healed_ns"] and kill["bit"] and protocol["bit"]


def test_protocol_fault_without_a_modified_frame_is_not_effective() -> None:
    """However many matched."""
    healed, effect = play(node(1, FakeProxy(works=False)))
    assert healed is not None and (effect.confirmed, effect.effective_ns) == (False, None)
    assert "2 matched, 0 delayed by 5s; nothing was done to any of them" in effect.proof


def test_protocol_fault_heal_fails_if_the_proxy_has_exited() -> None:
    """The nemesis records that as a fault that did not bite."""
    with pytest.raises(LabError, match="has ended"):
        play(node(1, FakeProxy(ends=False)))


def test_stopped_broker_gets_no_proxy_rule() -> None:
    """Alone it is no target; of two, the other makes half a bite."""
    down = node(1, running=False)
    fault = Protocol(fake_scene("protocol", down, api="EndTxn"))
    effect = fault.inject([down])
    assert effect == Effect(None, False, "no target was running")
    assert fault.heal([down], effect)[1] == effect and down.proxy.rule is None
    assert not play(down, node(2))[1].confirmed


def test_broker_without_a_proxy_is_a_lab_error() -> None:
    """It says what would put one there."""
    bare = node(1)
    bare.proxy = None
    with pytest.raises(LabError, match=r"broker 1 has no proxy; write cluster.proxies"):
        Protocol(fake_scene("protocol", bare, api="EndTxn")).inject([bare])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("clients",), ["clients"]),
        (("all-nodes",), ["brokers", "controllers"]),
        (("clients", "everybody"), None),
        (("broker 2",), ["127.0.0.1"]),
    ],
)
def test_frame_senders_are_matched_by_listener_or_address(
    words: tuple[str, ...], told: list[str] | None
) -> None:
    """Whoever is told by no listener has an address of its own in namespaces."""
    asked = node(1)
    play(asked, node(2), from_=words)
    assert asked.proxy.rule.from_ == told


def test_error_is_of_the_whole_response_where_kafka_has_it_there() -> None:
    """16 is NOT_COORDINATOR, of EndTxn itself; 6 is NOT_LEADER_OR_FOLLOWER, of each partition."""
    asked = node(1)
    _, effect = play(asked, what="error", error="NOT_COORDINATOR", nth=3, share=100.0)
    rule = asked.proxy.rule
    assert (rule.api, rule.what, rule.nth) == (26, "error", 3)
    assert rule.error == ErrorAnswer("EndTxn", 16, whole=True)
    play(asked, api="Produce", what="error", error="NOT_LEADER_OR_FOLLOWER")
    assert asked.proxy.rule.error == ErrorAnswer("Produce", 6, whole=False)
    assert "1 answered with an error NOT_COORDINATOR" in effect.proof


def test_observed_frames_are_recorded(tmp_path: Path) -> None:
    """What was acted upon and what passed; on disk at once."""
    broker, recorder = node(1), Recorder(tmp_path, "frames", "nemesis")
    scene = replace(fake_scene("protocol", broker, api="EndTxn", delay=5000), frames=FrameLog(recorder))
    play(broker, fault=Protocol(scene))
    rows = rows_so_far(tmp_path / "evidence" / "frames")
    known = [(r["fault"], r["broker"], r["api"], r["correlation_id"], r["action"]) for r in rows]
    assert known == [("1-protocol", 1, "EndTxn", 7, "delayed"), ("1-protocol", 1, "EndTxn", 8, None)]


def test_frames_after_the_end_of_a_run_are_not_recorded(tmp_path: Path) -> None:
    """A fault that was abandoned still watches; the recorder is closed by then."""
    frame = SeenFrame(time.time_ns(), True, 1, 7, "app", "10.0.0.9:4000")
    with Recorder(tmp_path, "frames", "nemesis") as recorder:
        log = FrameLog(recorder)
        log.add("1-protocol", None, 1, "EndTxn", frame, "delayed")
        log.close()
    log.add("1-protocol", None, 1, "EndTxn", frame, "delayed")
    log.flush()
    assert log.rows == 1
