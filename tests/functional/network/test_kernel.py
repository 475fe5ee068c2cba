"""What faults ask of the kernel, on this machine's own: rules, queues, connections, links; no brokers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import inside
import pytest

from driving import WITHOUT_RIGHTS
from kaput.cluster.network.preflight import AS_USER

PROGRAMS = ("ip", "tc", "nft", "ss")
PLACES = ("/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin")
TIMEOUT_S = 60


@pytest.mark.parametrize("user", ["whoever we are", "without rights"])
@pytest.mark.parametrize("name", [check.__name__ for check in inside.CHECKS])
def test_the_kernel_does_as_it_is_told(way: list[str], name: str, user: str) -> None:
    """Each check is a sentence; it is made where the programs of old do not exist."""
    before = way if user == "whoever we are" else [*WITHOUT_RIGHTS, "unshare", *AS_USER, "--mount"]
    places = [Path(place, program) for place in PLACES for program in PROGRAMS]
    hide = "".join(f"mount --bind /dev/null {place} && " for place in places if place.exists())
    done = subprocess.run(
        [*before, "sh", "-c", f'{hide}exec "$@"', "sh", sys.executable, "-P", inside.__file__, name],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
