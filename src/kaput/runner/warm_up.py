"""Warms up a new cluster's brokers before the timeline begins, on a temporary topic.

Runs in experiment.py, while the clients start. What sends and reads: workload/librdkafka/warm_up.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from kaput.cluster.admin import Admin
from kaput.errors import LabError
from kaput.processes.ownership import Owner
from kaput.runner.run_cluster import RunCluster
from kaput.scenario.model import Topic
from kaput.workload.client_spec import WarmUpSpec
from kaput.workload.librdkafka.warm_up import FAST_MS
from kaput.workload.supervision.client_process import ClientProcess, OnMessage, start_client

TOPIC = "kaput-warm-up"
_MODULE = "kaput.workload.librdkafka.warm_up"
_REPLICAS = 3
_START_S = 30.0  # for its process to start
_BUSY_PERCENT, _IDLE_WINDOW_S, _IDLE_WITHIN_S = 50, 0.3, 2.0


@contextmanager
def warmed_up(
    cluster: RunCluster, owner: Owner, scratch: Path, limit_ms: int, note: Callable[[str], None]
) -> Iterator[None]:
    """Warms up while the block runs, then deletes the topic. Does nothing if the brokers are already warm.
    Notes how warm they are.
    """
    if cluster.warm or not limit_ms:
        yield
        return
    results = list[Mapping[str, Any]]()
    with cluster.kafka.admin() as admin:
        try:
            client = _start(cluster, admin, owner, scratch, limit_ms, results.append)
        except LabError as error:
            note(cluster.prefixed(f"the brokers are not warmed up: {error}"))
            yield
            return
        yield
        try:
            _await_end(client, limit_ms / 1000 + _START_S)
            admin.delete_topic(TOPIC)
        except LabError as error:
            note(cluster.prefixed(f"the brokers may not be warm: {error}"))
            return
    _wait_for_idle_cores()
    note(cluster.prefixed(warm_sentence(results)))


def _wait_for_idle_cores() -> None:
    """Waits, at most 2 s, until half of the machine is idle: starting clients causes load too."""
    limit = time.monotonic() + _IDLE_WITHIN_S
    while psutil.cpu_percent(_IDLE_WINDOW_S) > _BUSY_PERCENT and time.monotonic() < limit:
        pass


def _await_end(client: ClientProcess, timeout_s: float) -> None:
    """Waits for its end, then kills it, as after `timeout_s`. Raises LabError if it ended on its own."""
    limit = time.monotonic() + timeout_s
    while not client.reported["done"].wait(0.05) and time.monotonic() < limit:
        client.check("done")
    client.process.kill()


def warm_sentence(messages: Sequence[Mapping[str, Any]]) -> str:
    """How warm the brokers are, by what the client reported; without a result it did not end in time."""
    warm = next((each for each in messages if each["kind"] == "warm"), None)
    if warm is None:
        return "it is not known whether the brokers are warm: the warm-up did not end"
    seconds, p99_ms = warm["seconds"], warm["p99_ms"]
    if p99_ms is None:
        return f"brokers are not warm after {seconds} s: nothing was acknowledged"
    found = f"99 % of acknowledgements within {p99_ms:,.{0 if p99_ms >= 100 else 1}f} ms"
    if p99_ms <= FAST_MS:
        return f"brokers warmed up in {seconds} s: {found}"
    return f"brokers are not warm after {seconds} s: {found} (goal: {FAST_MS:.0f} ms)"


def _start(
    cluster: RunCluster, admin: Admin, owner: Owner, scratch: Path, limit_ms: int, on_result: OnMessage
) -> ClientProcess:
    """Creates the topic and starts the process that sends and reads. Raises LabError."""
    kafka = cluster.kafka
    brokers, access = len(kafka.broker_ids()), kafka.access()
    topic = {"name": TOPIC, "partitions": brokers, "replication-factor": min(_REPLICAS, brokers)}
    admin.create_topics([Topic.model_validate(topic)])
    path = None if access.path is None else str(access.path)
    config = {"bootstrap.servers": kafka.bootstrap_servers, "client.id": TOPIC}
    spec = WarmUpSpec(TOPIC, brokers, limit_ms, config, path)
    return start_client(owner, scratch, cluster.writer(TOPIC), _MODULE, spec, on_result)
