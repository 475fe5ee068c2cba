"""What faults ask of the kernel, on this machine's own: rules, queues, connections, links; no brokers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import inside
import pytest

from waiting import PATIENCE_S

PROGRAMS = ("ip", "tc", "nft", "ss")
PLACES = ("/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin")


@pytest.mark.parametrize("who", ["way", pytest.param("users_way", marks=pytest.mark.long)])
@pytest.mark.parametrize("name", [check.__name__ for check in inside.CHECKS])
def test_kernel_network_operations_take_effect(request: pytest.FixtureRequest, name: str, who: str) -> None:
    """Each check is a sentence; it is made where the programs of old do not exist."""
    places = [Path(place, program) for place in PLACES for program in PROGRAMS]
    hide = "".join(f"mount --bind /dev/null {place} && " for place in places if place.exists())
    way = [*request.getfixturevalue(who), "sh", "-c", f'{hide}exec "$@"', "sh"]
    done = subprocess.run(
        [*way, sys.executable, "-P", inside.__file__, name],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
