"""Kafka's own producer under kaput's protocol, line by line, against a real cluster."""

from __future__ import annotations

import base64
import json
import subprocess
from collections import Counter
from pathlib import Path

from kaput.cluster.admin import Admin
from kaput.cluster.distribution import Distribution
from kaput.cluster.lab import LabCluster
from kaput.scenario.model import Topic
from kaput.workload.java.command_lines import JavaTools
from waiting import PATIENCE_S


def test_message_rejected_in_a_broken_transaction_has_one_outcome(
    cluster: LabCluster, admin: Admin, distribution: Distribution, tmp_path: Path
) -> None:
    """The client has put such a message into its buffer, and tells once more when it empties that."""
    admin.create_topics([Topic(name="broken", partitions=1)])
    start = {
        "bootstrap_servers": cluster.bootstrap_servers, "topic": "broken", "partitions": 1, "producer": 0,
        "acks": "all", "idempotence": True, "transactional_id": "breaks",
        "config": {"max.request.size": 1000},
    }  # fmt: skip
    sent = [
        {"seq": seq, "key": None, "payload": base64.b64encode(b"x" * size).decode(), "partition": 0}
        for seq, size in enumerate([10, 2000, 10, 10])
    ]
    lines = [start, {"begin": True}, *sent, {"end": "abort"}]
    done = subprocess.run(
        JavaTools(tmp_path, distribution, distribution.version).producer(None),
        input="".join(json.dumps(line) + "\n" for line in lines), capture_output=True, text=True, check=False,
        timeout=PATIENCE_S,
    )  # fmt: skip
    admin.delete_topic("broken")
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stderr[-2000:]
    assert Counter(line["seq"] for line in said if "seq" in line) == Counter(range(4))
    outcomes = {line["seq"]: line["outcome"] for line in said if "seq" in line}
    assert outcomes[1] == "failed" and {outcomes[2], outcomes[3]} == {"unknown"}
    assert said[-1]["transaction"] == "aborted"
