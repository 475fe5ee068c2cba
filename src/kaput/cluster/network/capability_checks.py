"""`python -m kaput.cluster.network.capability_checks`: tries what networks and faults need from the kernel.

Each check prints its name before it starts; the first failure ends the program with the kernel's message. Its
place: reexec.py runs it in a temporary namespace.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kaput.cluster import disk
from kaput.cluster.network.connections import tear_down
from kaput.cluster.network.interface import Chain, Hook, PacketRule
from kaput.cluster.network.links import KernelQueue, make_bridge, make_link, raise_loopback
from kaput.cluster.network.packet_filter import KernelFilter
from kaput.errors import LabError
from kaput.processes.mounts import freeze, thaw, tool, unmount

_HERE, _ELSEWHERE = "127.0.0.1", "10.77.0.1"
_WAIT_S = 5.0
FAILED = 3  # the exit status


@dataclass(frozen=True)
class CapabilityTrial:
    """Something to try, and what the machine lacks if it fails."""

    action: Callable[[], None]
    missing: str


def _destroy() -> None:
    with (
        socket.create_server((_HERE, 9)) as listener,
        socket.create_connection((_HERE, 9), _WAIT_S) as connection,
        listener.accept()[0],
    ):
        tear_down(os.getpid(), [_HERE])
        with contextlib.suppress(ConnectionError):
            connection.recv(1)
            raise LabError("the connection is still there")


def _mount() -> None:
    with tempfile.TemporaryDirectory() as folder:
        disk.mount(Path(folder), 1)
        if not unmount(Path(folder)):
            raise LabError("it cannot be unmounted")


def _freeze() -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "disk")
        disk.mount(place, 8, "ext4")
        try:
            freeze(place)
            if not thaw(place):
                raise LabError("it was not frozen")
        finally:
            if not unmount(place):
                raise LabError("it cannot be unmounted")


ALWAYS = {
    "lo": CapabilityTrial(raise_loopback, "rights over its own network namespace"),
    "bridge": CapabilityTrial(
        lambda: make_bridge("10.77.255.254"), "the kernel's bridges (as root: modprobe bridge)"
    ),
    # Both ends are in this namespace, the only one of this process.
    "veth": CapabilityTrial(
        lambda: make_link("kaput1", os.getpid(), _ELSEWHERE),
        "the kernel's veth links (as root: modprobe veth)",
    ),
    "nested": CapabilityTrial(lambda: _run("unshare", "--net", "true"), "namespaces inside its namespace"),
    "enter": CapabilityTrial(
        lambda: _run("nsenter", "-t", str(os.getpid()), "-n", "true"), "entering namespaces that it created"
    ),
    "filter": CapabilityTrial(
        lambda: _put("input", PacketRule("accept", resets=True), PacketRule("drop", counter="dropped")),
        "the kernel's packet filter (as root: modprobe nf_tables)",
    ),
}
# What some faults also need, by the names in their `needs`.
NEEDS = {
    "reject": CapabilityTrial(
        lambda: _put("input", PacketRule("reset", tcp=True)),
        "the packet filter's reject (as root: modprobe nft_reject_ipv4)",
    ),
    "numgen": CapabilityTrial(
        lambda: _put("input", PacketRule("drop", share=500)),
        "the packet filter's random numbers (as root: modprobe nft_numgen)",
    ),
    "destroy": CapabilityTrial(
        _destroy, "a way to tear down TCP connections (a kernel with CONFIG_INET_DIAG_DESTROY)"
    ),
    "tbf": CapabilityTrial(
        lambda: KernelQueue(None, "kaput1").limit(1e6, 32_000, 100),
        "the kernel's token bucket (as root: modprobe sch_tbf)",
    ),
    # in its own mount namespace
    "tmpfs": CapabilityTrial(_mount, "the right to mount its own file system (tmpfs)"),
    "ext4": CapabilityTrial(
        _freeze,
        "a disk that can be frozen: ext4 on a loop device (as root, with /dev/loop-control and e2fsprogs)",
    ),
    "nat": CapabilityTrial(
        lambda: _put("redirect-input", PacketRule(begins=True, redirect=2)),
        "the packet filter's redirect (as root: modprobe nft_redir nft_chain_nat)",
    ),
}


def _put(hook: Hook, *rules: PacketRule) -> None:
    """Creates a table with these rules, and removes it."""
    kernel = KernelFilter(None)
    kernel.put("kaput", [Chain("c", hook, (_ELSEWHERE,), rules)])
    kernel.counters("kaput")
    kernel.remove("kaput")
    kernel.close()


def _run(name: str, *arguments: str) -> None:
    done = subprocess.run(
        [tool(name), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_WAIT_S,
        check=False,
    )
    if done.returncode:
        raise LabError(done.stdout)


def main(needs: list[str]) -> int:
    """Runs the checks that are always needed and the named ones; returns 0, or FAILED."""
    for name, check in (ALWAYS | {need: NEEDS[need] for need in needs}).items():
        print(f"@{name}", flush=True)  # noqa: T201 - reexec.py reads it
        try:
            check.action()
        except (LabError, OSError, subprocess.SubprocessError) as error:
            print(error)  # noqa: T201
            return FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
