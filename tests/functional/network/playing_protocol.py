"""`playing_protocol.py NETWORK FOLDER`: every fault in the protocol on one cluster; prints what came of it.

In namespaces it runs in one of its own (test_protocol_faults.py).
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as Position

from kaput.cluster.admin import Admin
from kaput.cluster.admin.requests import find_coordinator, metadata
from kaput.cluster.distribution import resolve
from kaput.cluster.network.reexec import MARK, enter
from kaput.cluster.own_cluster import OwnCluster
from kaput.cluster.wire import Endpoint, Unanswered, ask
from kaput.core import TopicPartition
from kaput.evidence.recorder import Recorder
from kaput.faults.fault import FrameLog, Scene
from kaput.faults.protocol import Protocol
from kaput.java import find_java
from kaput.processes.ownership import Owner
from kaput.processes.records import own_marker
from kaput.scenario.model import Cluster, Topic
from kaput.scenario.steps import FaultStep
from kaput.scenario.timeline import AfterStart, Step

# How long an answer is waited for that never comes, and one that comes, on a busy machine as well.
_WAIT_S, _PATIENCE_S = 2.0, 300.0
TARGET = 1


class Stage:
    """One cluster with proxies in front of all nodes; what was seen of each case so far."""

    def __init__(self, cluster: OwnCluster, admin: Admin, frames: Recorder) -> None:
        self._cluster, self._admin, self._frames = cluster, admin, FrameLog(frames)
        place = cluster.nodes[TARGET].layout
        assert place.client_port is not None
        self._proxied = Endpoint(place.host, place.client_port)
        self.seen: dict[str, Any] = {}

    def play(self, case: str, meanwhile: Callable[[], Any], target: int = TARGET, **keys: Any) -> None:
        """Injects, does something, heals; notes what was proven, and what came of it."""
        step = FaultStep.model_validate(
            {"at": "0s", "fault": "protocol", "target": f"broker {target}", **keys}
        )
        assert not list(step.rules()), list(step.rules())
        nodes, network = self._cluster.nodes, self._cluster.network
        name = f"{len(self.seen) + 1}-protocol"
        scene = Scene(
            step=Step(name, "protocol", step.target, AfterStart(0), None, 1, step.options),
            nodes=nodes,
            network=network,
            admin=self._admin,
            frames=self._frames,
        )
        fault = Protocol(scene)
        effect = fault.inject([nodes[target]])
        began = time.monotonic()
        came = meanwhile()
        took_s = time.monotonic() - began
        healed, after = fault.heal([nodes[target]], effect)
        self.seen[case] = {
            "early": effect.confirmed,
            "bit": after.confirmed,
            "proof": after.proof,
            "healed": healed is not None,
            "came": came,
            "took_s": took_s,
        }

    def ask(self, request: Any, wait_s: float = _PATIENCE_S) -> Any:
        """The error code of the broker's answer, or why there was none."""
        try:
            return getattr(ask(self._proxied, request, wait_s), "error_code", None)
        except Unanswered as error:
            return str(error)

    def produce(self) -> int:
        """One message, acknowledged; how many are in the log then."""
        producer = Producer(
            {"bootstrap.servers": self._cluster.bootstrap_servers, "enable.idempotence": False}
        )
        producer.produce("orders", b"message")
        assert producer.flush(_PATIENCE_S) == 0
        return sum(self._admin.log_end_offsets([TopicPartition("orders", 0)]).values())

    def await_frame(self) -> None:
        """Until nodes have asked each other what they ask all the time."""
        before, limit = self._frames.rows, time.monotonic() + _PATIENCE_S
        while self._frames.rows == before:
            assert time.monotonic() < limit, "nodes ask each other nothing"
            time.sleep(0.01)

    def consume(self, ask_for: Callable[[Consumer], Any]) -> int:
        """The code of the error that a consumer's question ends with; 0 for none."""
        consumer = Consumer({"bootstrap.servers": self._cluster.bootstrap_servers, "group.id": "billing"})
        try:
            ask_for(consumer)
        except KafkaException as error:
            return int(error.args[0].code())
        finally:
            consumer.close()
        return 0

    def play_errors(self) -> None:
        """Errors of single partitions: a producer sends again, consumers report theirs."""
        place = Position("orders", 0, 1)
        moved: dict[str, Any] = {"what": "error", "error": "NOT_LEADER_OR_FOLLOWER"}
        self.play("error to a producer", self.produce, api="Produce", nth=1, **moved)
        ends = partial(self.consume, lambda consumer: consumer.get_watermark_offsets(place, _PATIENCE_S))
        # One after which no client tries again; in both answers (first and last offset), since librdkafka
        # reports what came last.
        denied: dict[str, Any] = {**moved, "error": "TOPIC_AUTHORIZATION_FAILED"}
        self.play("error to a consumer", ends, api="ListOffsets", **denied)
        commits = partial(self.consume, partial(_commit, place))
        coordinator, large = self._admin.coordinator("billing"), {"error": "OFFSET_METADATA_TOO_LARGE"}
        self.play("error to a group", commits, coordinator, api="OffsetCommit", what="error", **large)


def _commit(place: Position, consumer: Consumer) -> None:
    (done,) = consumer.commit(offsets=[place], asynchronous=False)
    if done.error:
        raise KafkaException(done.error)


def play_all(stage: Stage) -> None:
    """Each thing that can be done, to requests of clients, brokers and to controllers; and one in vain."""
    about = find_coordinator("billing")
    stage.play("delay", lambda: stage.ask(metadata()), api="Metadata", what="delay", delay="700ms", nth=1)
    for what in ("drop-request", "drop-response"):
        stage.play(what, lambda: stage.ask(metadata(), _WAIT_S), api="Metadata", what=what)
    stage.play("disconnect", lambda: stage.ask(metadata()), api="Metadata", what="disconnect")
    error: dict[str, Any] = {"what": "error", "error": "COORDINATOR_NOT_AVAILABLE"}
    stage.play("error", lambda: stage.ask(about), api="FindCoordinator", **error)
    stage.play("duplicate", stage.produce, api="Produce", what="duplicate")
    stage.play_errors()
    stage.play("in vain", lambda: stage.ask(metadata()), api="EndTxn", what="disconnect")
    of_nodes: dict[str, Any] = {"what": "delay", "delay": "50ms", "from": "brokers"}
    stage.play("from brokers", stage.await_frame, api="Fetch", **of_nodes)
    stage.play("to the controller", stage.await_frame, 101, api="BrokerHeartbeat", **of_nodes)
    stage.play("afterwards", lambda: stage.ask(metadata()), api="Metadata", what="delay", delay="1ms")


def main(network: str, folder: Path) -> None:
    """All cases, one after the other, each leaving the cluster as it was."""
    if network == "namespaces":
        os.environ[MARK] = own_marker()
        enter([])
    java = find_java()
    spec = Cluster.model_validate(
        {"brokers": 2, "controllers": 1, "network": network, "proxies": "everybody"}
    )
    frames = Recorder(folder, "frames", "playing")
    jars = resolve(spec.kafka, java)
    with (
        Owner() as owner,
        OwnCluster(owner, spec, jars, java, folder / "b") as cluster,
        Admin(cluster) as admin,
    ):
        admin.create_topics([Topic(name="orders", replication_factor=2, assignment=[[1, 2]])])
        stage = Stage(cluster, admin, frames)
        play_all(stage)
        frames.close()
        sys.stdout.write(json.dumps(stage.seen))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
