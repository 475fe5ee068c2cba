"""Faults in the protocol on real clusters: clients feel each, and each is proven, on both networks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from streams import rows_so_far
from waiting import PATIENCE_S

PLAYING = Path(__file__).with_name("playing_protocol.py")
OFFSET_METADATA_TOO_LARGE, COORDINATOR_NOT_AVAILABLE, TOPIC_AUTHORIZATION_FAILED = 12, 15, 29
# What comes of one request: the error code of its answer, or why there is none.
FELT = {
    "delay": 0,
    "drop-request": "timed out",
    "drop-response": "timed out",
    "disconnect": "closed the connection",
    "error": COORDINATOR_NOT_AVAILABLE,
    "duplicate": 2,  # a message that is in the log twice
    "error to a producer": 3,  # it sends it again, and it is in the log once
    "error to a consumer": TOPIC_AUTHORIZATION_FAILED,
    "error to a group": OFFSET_METADATA_TOO_LARGE,
    "from brokers": None,
    "to the controller": None,
    "afterwards": 0,
}


@pytest.fixture(scope="module", params=["loopback", pytest.param("namespaces", marks=pytest.mark.long)])
def played(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What every case proved, all of them played on one cluster; and the run folder."""
    folder = tmp_path_factory.mktemp(request.param)
    way = request.getfixturevalue("way") if request.param == "namespaces" else []
    done = subprocess.run(
        [*way, sys.executable, str(PLAYING), request.param, str(folder)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout)), folder


@pytest.mark.parametrize("case", FELT)
def test_protocol_fault_is_seen_by_clients_and_proven(played: Any, case: str) -> None:
    """Not before a frame came; after the last one everything is as it was."""
    found, felt = played[0][case], FELT[case]
    assert (found["early"], found["bit"], found["healed"]) == (False, True, True), found["proof"]
    assert found["came"] == felt or (isinstance(felt, str) and felt in str(found["came"])), found
    if case == "delay":
        assert found["took_s"] >= 0.7


def test_protocol_fault_without_a_matching_frame_is_not_confirmed(played: Any) -> None:
    """Nothing is done to requests that do not match."""
    found = played[0]["in vain"]
    assert not found["bit"] and found["came"] == 0
    assert "0 matched, 0 disconnected; nothing was done to any of them" in found["proof"]


def test_every_affected_frame_is_in_the_evidence(played: Any) -> None:
    """With what was done to it, and who asked whom."""
    rows = rows_so_far(played[1] / "evidence" / "frames")
    of_nodes = {(r["broker"], r["api"]) for r in rows if r["fault"] in ("11-protocol", "12-protocol")}
    assert of_nodes == {(1, "Fetch"), (101, "BrokerHeartbeat")}
    actions = [r["action"] for r in rows if r["client_id"] == "kaput" and r["api"] == "Metadata"]
    assert actions == ["delayed", "dropped", "left without a response", "disconnected", "delayed"]
    assert {r["action"] for r in rows if r["fault"] == "11-protocol"} == {"delayed"}
