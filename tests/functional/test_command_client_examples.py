"""Programs of others in a real run: the examples lose nothing, and one that lies is caught, exactly.

One run for all tests here: everybody sends to one topic, and each example reads it in a group of its own.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import yaml

from driving import Kaput, Result
from fakes.liar import liar
from waiting import PATIENCE_S

# Their siblings, with librdkafka's own mock of brokers: test_command_clients.py, test_client_moves.py and
# test_false_acks.py in unit/workload, all with the example in Python.
pytestmark = pytest.mark.long

EXAMPLES = Path(__file__).parents[2] / "examples" / "clients"
MESSAGES, EACH = 2000, 100


def python_command(_scratch: Path) -> str | None:
    return shlex.join([sys.executable, str(EXAMPLES / "python" / "client.py")])


def go_command(scratch: Path) -> str | None:
    """The example with franz-go, built here; None where there is no Go, or no way to its modules."""
    go, built = shutil.which("go"), scratch / "go-client"
    # Without optimising: the compiler takes most of the time.
    if go is None or not _done([go, "build", "-gcflags=all=-N -l", "-o", str(built), "."], EXAMPLES / "go"):
        return None
    return shlex.join([str(built)])


def node_command(scratch: Path) -> str | None:
    """The example with kafkajs, installed here; None where there is no Node, or no way to its package."""
    node, npm, copy = shutil.which("node"), shutil.which("npm"), scratch / "node"
    if node is None or npm is None:
        return None
    shutil.copytree(EXAMPLES / "node", copy, ignore=shutil.ignore_patterns("node_modules"))
    if not _done([npm, "ci", "--no-audit", "--no-fund"], copy):
        return None
    return shlex.join([node, str(copy / "client.mjs")])


def _done(command: list[str], cwd: Path) -> bool:
    try:
        done = subprocess.run(
            command, cwd=cwd, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    sys.stderr.write(done.stderr)
    return done.returncode == 0


CLIENTS = {"python": python_command, "go": go_command, "node": node_command}


@pytest.fixture(scope="module")
def played(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Result, dict[str, int]]:
    """The run, and the number of each client's producer; the liar's is the last. Clients that no test asks
    about are not built.
    """
    scratch = tmp_path_factory.mktemp("clients")
    asked = {
        item.callspec.params.get("client") for item in request.session.items if hasattr(item, "callspec")
    }
    wanted = {name: make for name, make in CLIENTS.items() if name in asked}
    commands = {name: made for name, make in wanted.items() if (made := make(scratch)) is not None}
    program = scratch / "liar.py"
    program.write_text(liar(EACH))
    sends = {"topic": "orders", "client": "command", "messages": MESSAGES, "rate": 500}
    reads = {"topics": ["orders"], "client": "command"}
    produce = [f"{command} produce" for command in commands.values()] + [f"{sys.executable} {program}"]
    scenario = {
        "version": 1,
        "title": "Other clients",
        "cluster": {"brokers": 1},
        "topics": [{"name": "orders", "partitions": 2, "replication-factor": 1}],
        "workload": {
            "producers": [{**sends, "command": command} for command in produce],
            "groups": [
                {"id": name, "command": f"{command} consume", **reads} for name, command in commands.items()
            ],
        },
    }
    path = scratch / "other-clients.yaml"
    path.write_text(yaml.safe_dump(scenario))
    result = Kaput(scratch / "runs").run(str(path))
    return result, {name: number for number, name in enumerate([*commands, "liar"])}


def test_client_that_acks_before_sending_is_caught(played: tuple[Result, dict[str, int]]) -> None:
    """Exactly the messages that it never sent are lost, and nothing in the cluster explains them."""
    result, numbers = played
    lost = [(send["producer"], send["seq"]) for send in result.lost()]
    assert sorted(lost) == [(numbers["liar"], seq) for seq in range(37, MESSAGES, EACH)]
    assert result.count("lost") == len(lost) == MESSAGES // EACH
    assert result.causes("lost") == {"unexplained": MESSAGES // EACH}
    assert (result.status, result.findings["verdict"]) == (1, "violated")
    (suspect,) = result.findings["suspects"]
    assert (suspect["producer"], suspect["lost_without_offset"]) == (numbers["liar"], len(lost))
    assert suspect["story"] in result.findings["notes"]


@pytest.mark.parametrize("client", CLIENTS)
def test_an_example_sends_and_reads_everything(client: str, played: tuple[Result, dict[str, int]]) -> None:
    """All is acknowledged at the offset where it is stored; its group was handed all that is stored."""
    result, numbers = played
    if client not in numbers:
        pytest.skip(
            f"the {client} example was not run: its toolchain is missing, or its packages out of reach"
        )
    number = numbers[client]
    sends = [row for row in result.rows("sends") if row["producer"] == number]
    assert Counter(row["outcome"] for row in sends) == {"acked": MESSAGES}
    stored = {(row["partition"], row["offset"]): (row["producer"], row["seq"]) for row in result.rows("log")}
    assert all(stored[row["partition"], row["offset"]] == (number, row["seq"]) for row in sends)
    (group,) = [group for group in result.findings["groups"] if group["group"] == client]
    assert group["drained"] and group["delivered_messages"] == len(set(stored.values()))
    of_group = {a["name"]: a["count"] for a in result.findings["anomalies"] if a["group"] == client}
    assert {name: count for name, count in of_group.items() if count} == {}
    assert not [reason for reason in result.findings["reasons"] if "command" in reason]
