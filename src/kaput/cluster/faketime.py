"""A node's clock that can be shifted while it runs: libfaketime, preloaded into its JVM.

Namespaces shift the monotonic clocks alone. libfaketime answers the process's own calls; it reads the offset
from a file, at most a second late, and leaves the monotonic clocks as they are. Not here: shifting it
(faults/clock_skew.py).
"""

from __future__ import annotations

import os
from pathlib import Path

from kaput.cluster.properties import NodeLayout
from kaput.errors import LabError
from kaput.evidence.folder import replace_text

VARIABLE = "KAPUT_FAKETIME"
# Not libfaketimeMT, whose lock makes reading the clock ten times slower (25 us): brokers hardly start.
_NAME = "libfaketime.so.1"
SLOWER = 5  # factor for the time until nodes are ready: each read of the clock calls the library
_PLACES = ("/usr/lib/*/faketime", "/usr/lib/faketime", "/usr/lib64/faketime", "/usr/local/lib/faketime")


def library() -> Path:
    """The library's path. Raises LabError if it is not installed."""
    if named := os.environ.get(VARIABLE):
        if Path(named).is_file():
            return Path(named)
        raise LabError(f"{VARIABLE}={named}: there is no such file")
    libraries = sorted(path for place in _PLACES for path in Path("/").glob(f"{place[1:]}/{_NAME}"))
    if not libraries:
        raise LabError(
            f"cluster.faketime needs libfaketime (as root: apt-get install libfaketime), or {VARIABLE} with "
            f"the path of {_NAME}"
        )
    return libraries[0]


def preloaded(layout: NodeLayout, command: list[str]) -> list[str]:
    """The command with libfaketime preloaded, so that `shift` can shift its clock. Raises LabError."""
    shift(layout, 0)
    settings = {
        "LD_PRELOAD": library(),
        "FAKETIME_TIMESTAMP_FILE": _file(layout),
        "FAKETIME_CACHE_DURATION": 1,  # in seconds
        "FAKETIME_DISABLE_SHM": 1,  # leaves nothing in /dev/shm
        "FAKETIME_DONT_FAKE_MONOTONIC": 1,
        "DONT_FAKE_MONOTONIC": 1,  # its name before 0.9.10
    }
    return ["env", *(f"{name}={value}" for name, value in settings.items()), *command]


def shift(layout: NodeLayout, ms: int) -> None:
    """Sets the clock `ms` ahead (negative: behind), from the next second on."""
    layout.folder.mkdir(parents=True, exist_ok=True)
    replace_text(_file(layout), f"{ms / 1000:+.3f}s\n")


def _file(layout: NodeLayout) -> Path:
    return layout.folder / "clock"
