"""The procedure of 2012, as its script does it: Kafka's console clients, a broker that dies, and a check."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import psutil
import pytest

from driving import KAPUT
from waiting import PATIENCE_S

SCRIPT = Path(__file__).parents[2] / "scripts" / "sequence-2012.sh"
COUNT = 8000


@pytest.mark.long
@pytest.mark.alone  # the script kills a broker while eight seconds of messages flow
def test_dead_broker_of_two_loses_half_of_the_messages(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Of two brokers one is away for 3 s: what went to it is missing, all else is there once."""
    state = tmp_path_factory.mktemp("s")
    given = {"COUNT": COUNT, "RATE": 1000, "KILL_AFTER_S": 1, "DOWN_FOR": "3s", "KAPUT": KAPUT[0]}
    env = {**os.environ, "XDG_STATE_HOME": str(state), **{key: str(value) for key, value in given.items()}}
    done = subprocess.run(
        [SCRIPT, "--json"], capture_output=True, text=True, timeout=PATIENCE_S, check=False, env=env
    )
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    assert found["expected"] == COUNT and found["seen"] + found["missing"] == COUNT
    assert found["missing"] > 0 and found["duplicates"] == found["unexpected"] == found["unreadable"] == 0
    worst = max(found["windows"], key=lambda window: int(window["missing"]))
    assert 25 < worst["percent"] < 75 and worst["ms"] > 0
    # Both brokers' halves of what came before the kill are whole.
    assert worst["first"] > 500
    everything = [" ".join(process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"])]
    assert not [line for line in everything if str(state) in line]
