"""200 topics of 6 partitions get three replicas while they are written; kaput reassign is killed ten times.

`kaput run` plays a scenario of its own with producers, a group and no fault, so that the ledger accounts for
every message over the whole change; beside it this fills the other topics, times the doctor, and has
`kaput reassign` raise the replication factor, with a SIGKILL at random moments and a resume after each.
Example: .venv/bin/python benchmarks/reassign.py --seed 1
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml
from confluent_kafka import Producer

from kaput.cluster.access import OPEN
from kaput.cluster.admin.reassignments import reassignment_client
from kaput.cluster.admin.requests import THROTTLED_RATES as RATES
from kaput.cluster.admin.requests import THROTTLED_REPLICAS as REPLICAS

KAPUT = [sys.executable, "-P", "-m", "kaput"]
LOADED = 4  # topics that the ledger accounts for


def main() -> None:
    """Plays it and prints the figures; exit 1 where something is not as it must be."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--topics", type=int, default=200)
    parser.add_argument("--partitions", type=int, default=6)
    parser.add_argument("--records", type=int, default=10, help="of 10 kB in each partition")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--throttle", default="4MB")
    parser.add_argument("--seconds", type=int, default=240, help="for which producers send")
    parser.add_argument("--rate", type=int, default=250, help="messages a second of each producer")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kaput-reassign-") as folder:
        env = {**os.environ, "XDG_STATE_HOME": folder}
        scenario = Path(folder) / "two-hundred-topics.yaml"
        scenario.write_text(yaml.safe_dump(_scenario(given), sort_keys=False))
        with (Path(folder) / "findings.json").open("w+") as out:
            run = subprocess.Popen(
                [*KAPUT, "run", str(scenario), "--json", "--runs", str(given.runs)], stdout=out
            )
            try:
                figures = _change(given, env, run)
                print("the reassignment is done; waiting for the load, the drain and the ledger", flush=True)
                run.wait()
            finally:
                if run.poll() is None:
                    run.terminate()
                    run.wait()
            out.seek(0)
            figures |= _ledger(json.load(out))
    print(json.dumps(figures, indent=2))
    right = figures["right"] and figures["lost"] == 0 and figures["verdict"] == "held"
    sys.exit(0 if right else 1)


def _scenario(given: argparse.Namespace) -> dict[str, Any]:
    """All on broker 1; producers with acks=all to four of the topics, a group that reads them."""
    names = [f"t{number:03}" for number in range(given.topics)]
    topic = {"partitions": given.partitions, "replication-factor": 1, "assignment": [[1]] * given.partitions}
    return {
        "version": 1,
        "title": f"{given.topics} topics get three replicas while they are written",
        "cluster": {"brokers": 3, "controllers": 1, "config": {"offsets.topic.replication.factor": 1}},
        "topics": [{"name": name, **topic} for name in names],
        "workload": {
            "producers": [
                {
                    "topic": name,
                    "acks": "all",
                    "idempotence": True,
                    "duration": f"{given.seconds}s",
                    "rate": given.rate,
                }
                for name in names[:LOADED]
            ],
            "groups": [{"id": "billing", "topics": names[:LOADED], "members": 2}],
            "drain": {"timeout": "300s"},
        },
    }


def _change(given: argparse.Namespace, env: dict[str, str], run: subprocess.Popen[bytes]) -> dict[str, Any]:
    servers = _servers(given.runs, run)
    at = ["--bootstrap-servers", servers]
    with reassignment_client(servers, OPEN) as cluster:
        _until(lambda: len(cluster.view().partitions) > given.topics * given.partitions, run)
        filled = _fill(given, servers)
        began = time.monotonic()
        doctor = _call(["doctor", "--json", "--fail-on", "never", *at], env)
        doctor_s = time.monotonic() - began
        three = ["reassign", "--replication-factor", "3", "--all-topics"]
        plan = json.loads(_call([*three, "--dry-run", "--json", *at], env))
        least = sum(max(0, 3 - len(state.replicas)) for state in cluster.view().partitions.values())
        began = time.monotonic()
        killed = _killed(given, env, [*three, "--yes", "--throttle", given.throttle, *at], at)
        _call(["reassign", "--resume", "--yes", "--throttle", "100MB", *at], env)
        seconds = time.monotonic() - began
        view = cluster.view()
        names = sorted({topic for topic, _ in view.partitions})
        left = [
            value
            for kind, each, keys in (("topic", names, REPLICAS), ("broker", ["1", "2", "3"], RATES))
            for config in cluster.configs(kind, each, keys).values()  # type: ignore[arg-type]
            for value in config.values()
            if value is not None
        ]
        states = view.partitions.values()
        whole = all(set(state.replicas) == set(state.isr) == {1, 2, 3} for state in states)
        led = {broker: sum(state.leader == broker for state in states) for broker in (1, 2, 3)}
        return {
            "partitions": len(view.partitions),
            "filled_bytes": filled,
            "doctor_s": round(doctor_s, 1),
            "findings": len(json.loads(doctor)["findings"]),
            "copies": plan["copies"],
            "copies_at_least": least,
            "bytes_to_copy": plan["bytes"],
            "killed_after_s": killed,
            "seconds": round(seconds, 1),
            "leaders": led,
            "right": whole and not left and plan["copies"] == least and len(killed) == given.kills,
        }


def _servers(runs: Path, run: subprocess.Popen[bytes]) -> str:
    """The address of the run's first broker, once it has a run folder."""
    started = time.time()
    while run.poll() is None:
        for path in runs.glob("*/brokers/1/server.properties"):
            if path.stat().st_mtime > started - 5:
                (line,) = [x for x in path.read_text().splitlines() if x.startswith("listeners=")]
                return line.split("PLAINTEXT://")[1].split(",")[0]
        time.sleep(0.2)
    sys.exit("kaput run ended before it had brokers")


def _until(condition: Any, run: subprocess.Popen[bytes]) -> None:
    """Waits for the topics, and the group's."""
    while not condition():
        if run.poll() is not None:
            sys.exit("kaput run ended before its load began")
        time.sleep(1)


def _fill(given: argparse.Namespace, servers: str) -> int:
    """Records in every partition that the ledger does not account for; their bytes."""
    producer = Producer(
        {"bootstrap.servers": servers, "linger.ms": 50, "queue.buffering.max.messages": 500000}
    )
    payload = random.Random(given.seed).randbytes(10_000)
    for number in range(LOADED, given.topics):
        for partition in range(given.partitions):
            for _ in range(given.records):
                producer.produce(f"t{number:03}", payload, partition=partition)
        producer.poll(0)
    if left := producer.flush(300):
        sys.exit(f"{left} records could not be written")
    return (given.topics - LOADED) * given.partitions * given.records * len(payload)


def _killed(given: argparse.Namespace, env: dict[str, str], first: list[str], at: list[str]) -> list[float]:
    """Starts, and then resumes again and again; after how many seconds each was killed."""
    draw = random.Random(given.seed)
    again = ["reassign", "--resume", "--yes", *at]
    journals = Path(env["XDG_STATE_HOME"]) / "kaput" / "reassignments"
    found = []
    for number in range(given.kills):
        one = subprocess.Popen([*KAPUT, *(again if number else first)], env=env, stdout=subprocess.DEVNULL)
        # What is killed before it has written down what it will do has done nothing.
        while not number and one.poll() is None and not any(journals.glob("*.lock")):
            time.sleep(0.05)
        wait = draw.uniform(0.5, 6.0)
        try:
            one.wait(wait)
            break  # it was done before it could be killed
        except subprocess.TimeoutExpired:
            one.kill()
            one.wait()
            if not any(journals.glob("*.json")):
                sys.exit("killed before it had begun: try another --seed")
            found.append(round(wait, 1))
            print(f"killed after {wait:.1f} s", flush=True)
    return found


def _call(arguments: list[str], env: dict[str, str]) -> str:
    done = subprocess.run([*KAPUT, *arguments], env=env, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(arguments[:2])} ended with {done.returncode}")
    return done.stdout


def _ledger(findings: Any) -> dict[str, Any]:
    """What became of every message."""
    found = findings[0] if isinstance(findings, list) else findings
    counts = {}
    for each in found["anomalies"]:
        counts[each["name"]] = counts.get(each["name"], 0) + each["count"]
    totals = found["totals"]
    return {
        "verdict": found["verdict"],
        "reasons": found["reasons"],
        "sent": totals["sent"],
        "acked": totals["acked"],
        **{name: counts.get(name, 0) for name in ("lost", "duplicate", "unseen", "redelivered", "reordered")},
        "ack_ms": found["latency_ms"]["ack"],
    }


if __name__ == "__main__":
    main()
