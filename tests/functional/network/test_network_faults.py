"""Each network fault on a real cluster: that it bites, that it heals, and that it says so when it cannot."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from waiting import PATIENCE_S

PLAYING = Path(__file__).with_name("playing.py")
BITING = [
    "isolate",
    *(f"cut {direction} {how}" for how in ("drop", "reject") for direction in ("both", "in", "out")),
    "cut from clients",
    "cut from controllers",
    "cut from broker 2",
    *(f"partition {side}" for side in ("both", "target", "others")),
    "flap",
    "loss",
    "loss of one in a thousand",
    "bandwidth",
    "bandwidth of a slow line",
    "bandwidth of a fast line",
    "reset",
    "delay",
    "delay for clients",
    "delay as uneven as it is long",
    "disk-full",
    "isolate under a cut",
    "bandwidth first",
]
FAULTS = ("isolate", "cut", "partition", "flap", "loss", "reset", "bandwidth", "delay", "disk-full")
# What somebody else undoes behind a fault's back, and what its proof says of that at the heal.
UNDONE = {
    "cut whose rules are flushed": "the rules of node 1 were gone before the heal",
    "flap of which one cut does nothing": "in cut 2 node 1 is still reached by",
    "bandwidth without its limit": "the limit of node 1 was gone before the heal",
    "disk-full without its ballast": "of ballast 0.0 MB were left before the heal",
}
IN_VAIN = {
    "cut from itself": "no other parties to cut it off from",
    "reset without connections": "0 of 0 open connections",
    "cut on an isolated node": "none of them connected before",
    "bandwidth twice": "cannot be limited",
    "disk-full on a full disk": "was full before, so nothing is proven",
    **{f"{fault} on a dead node": "no target was running" for fault in FAULTS},
}


@pytest.fixture(scope="module")
def seen(way: list[str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What every case proved, all of them played on one cluster."""
    folder = tmp_path_factory.mktemp("playing")
    done = subprocess.run(
        [*way, sys.executable, str(PLAYING), str(folder)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("case", BITING)
def test_fault_takes_effect_and_heals(seen: dict[str, Any], case: str) -> None:
    """Both proofs are there, and no rule of its own is left anywhere."""
    found = seen[case]
    assert found["injected"]["bit"], found["injected"]["proof"]
    assert found["healed"]["bit"], found["healed"]["proof"]
    assert found["healed"]["proof"] != found["injected"]["proof"]
    assert found["left"] == []


@pytest.mark.parametrize("case", IN_VAIN)
def test_fault_without_effect_is_not_confirmed(seen: dict[str, Any], case: str) -> None:
    """Not bitten, with the reason, before and after the heal."""
    found = seen[case]
    assert not found["injected"]["bit"] and not found["healed"]["bit"]
    assert IN_VAIN[case] in found["injected"]["proof"]


@pytest.mark.parametrize("case", UNDONE)
def test_fault_undone_before_the_heal_is_not_confirmed(seen: dict[str, Any], case: str) -> None:
    """It bit when it was injected, and is no bite any more when it is healed."""
    found = seen[case]
    assert found["injected"]["bit"], found["injected"]["proof"]
    assert not found["healed"]["bit"] and UNDONE[case] in found["healed"]["proof"]
    assert found["left"] == []


def test_every_case_is_checked_by_a_test(seen: dict[str, Any]) -> None:
    """Every case that is played has its assertions."""
    assert set(seen) == set(BITING) | set(IN_VAIN) | set(UNDONE)


def test_isolated_broker_is_still_reachable_by_clients(seen: dict[str, Any]) -> None:
    """The proof names who is cut off and who is not, with the numbers of the probes."""
    proof = seen["isolate"]["healed"]["proof"]
    assert "cut off from broker 2, controller 101" in proof
    assert "possible and now fail: 2; still reached by the clients" in proof
    assert re.search(r"all connect again after \d+ ms", proof)


def test_faults_on_one_node_do_not_remove_each_other(seen: dict[str, Any]) -> None:
    """When the inner cut was healed, the isolation around it stayed, and only that."""
    (left,) = seen["cut on an isolated node"]["left"]
    assert left.endswith("_isolate")


def test_packet_loss_matches_the_requested_share(seen: dict[str, Any]) -> None:
    """20 % of thousands of packets, by the packet filter's own counts."""
    proof = seen["loss"]["healed"]["proof"]
    (dropped, total) = re.findall(r"([\d,]+) of ([\d,]+) packets", proof)[-1]
    seen_packets = int(total.replace(",", ""))
    assert seen_packets >= 5000
    assert int(dropped.replace(",", "")) / seen_packets == pytest.approx(0.2, abs=0.03)


def test_delay_is_measured_in_response_times(seen: dict[str, Any]) -> None:
    """Measured by requests of the clients: before, during and after."""
    proof = seen["delay"]["healed"]["proof"]
    match = re.search(
        r"response time (\d+) ms before and (\d+) ms now; it is gone, response time (\d+) ms after", proof
    )
    assert match is not None, proof
    before, during, after = map(int, match.groups())
    assert during >= before + 70
    assert after < during


def test_the_flapping_link_was_cut_more_than_once(seen: dict[str, Any]) -> None:
    """It comes back on its own, and is cut again."""
    match = re.search(r"times cut: (\d+)", seen["flap"]["healed"]["proof"])
    assert match is not None and int(match[1]) >= 2
