"""Restarts kaput, as the same process, inside its own network namespace; or says in a sentence why this
machine does not support that, and the fix.

This happens before anything else is started, so that everything (clients, brokers, Spark) is inside. The
namespace ends with the last process in it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

from kaput.cluster.network.capability_checks import ALWAYS, FAILED, NEEDS
from kaput.cluster.network.links import raise_loopback
from kaput.errors import LabError, NamespacesError
from kaput.processes.mounts import tool
from kaput.processes.records import own_marker

AS_ROOT = ("--net",)
AS_USER = ("--user", "--map-root-user", "--net")
TOOLS = ("unshare", "nsenter")  # of util-linux, which every distribution has
_TIMEOUT_S = 20
_UNSHARE_FAILED = 1  # unshare's own failure; if it cannot start the program, it exits with others
_SWITCHES = {
    "kernel/apparmor_restrict_unprivileged_userns": ("1", "kernel.apparmor_restrict_unprivileged_userns=0"),
    "kernel/unprivileged_userns_clone": ("0", "kernel.unprivileged_userns_clone=1"),
    "user/max_user_namespaces": ("0", "user.max_user_namespaces=10000"),
}


def namespace_command(needs: Collection[str] = ()) -> list[str]:
    """The command that starts a program in its own namespace.

    Raises LabError naming what is missing; NamespacesError if the kernel lacks it or forbids it.
    """
    if sys.platform != "linux":
        raise NamespacesError(
            f"network namespaces need Linux, and this is {sys.platform}; "
            "run a scenario with cluster.network: loopback, or use a Linux machine"
        )
    _check_tools()
    first_error: LabError | None = None
    # Root without the right to create namespaces, as in many containers, may still create user namespaces.
    for options in [AS_ROOT, AS_USER] if os.geteuid() == 0 else [AS_USER]:
        unshare = [tool("unshare"), *options, *(["--mount"] if {"tmpfs", "ext4"} & set(needs) else [])]
        try:
            _run_checks(unshare, needs)
        except LabError as error:
            first_error = first_error or error
            continue
        return unshare
    assert first_error is not None
    raise first_error


def _check_tools() -> None:
    absent = [name for name in TOOLS if not Path(tool(name)).is_absolute()]
    if absent:
        raise LabError(
            f"network namespaces need {' and '.join(absent)} of util-linux, which are not installed; "
            "install with: apt-get install util-linux (Debian, Ubuntu) or dnf install util-linux (Fedora)"
        )


def _run_checks(unshare: Sequence[str], needs: Collection[str]) -> None:
    """Runs all checks once in a temporary namespace. Raises LabError."""
    # -P: do not import modules from the working directory.
    checks = [sys.executable, "-P", "-m", "kaput.cluster.network.capability_checks", *sorted(needs)]
    try:
        done = subprocess.run(
            [*unshare, *checks],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise LabError(
            f"network namespaces could not be tried within {_TIMEOUT_S} s; is the machine overloaded?"
        ) from None
    if done.returncode == 0:
        return
    if done.returncode != FAILED and (done.returncode != _UNSHARE_FAILED or "Traceback" in done.stdout):
        last = done.stdout.strip().rpartition("\n")[2]
        raise LabError(f"network namespaces could not be tried (exit {done.returncode}): {last[:300]}")
    _, marker, last = done.stdout.rpartition("@")
    name, _, message = last.partition("\n")
    complaint = " ".join((message if marker else done.stdout).split())[:300]
    if not marker or name == "lo":
        raise NamespacesError(_remedy(complaint))
    missing = (ALWAYS | NEEDS)[name].missing
    raise NamespacesError(f"this machine lacks {missing}, which network namespaces need: {complaint}")


def _remedy(complaint: str) -> str:
    if "root filesystem propagation" in complaint:
        remedy = "the root directory is not a mount point, as in a chroot; use a container or pivot_root"
    elif os.geteuid() == 0:
        remedy = "root lacks the rights; give the container CAP_SYS_ADMIN and CAP_NET_ADMIN"
    else:
        off = [setting for file, (value, setting) in _SWITCHES.items() if _read_setting(file) == value]
        allow = " ".join(off) if off else "user namespaces (see your system's manual)"
        remedy = f"ordinary users may not; run kaput as root, or allow it as root with: sysctl -w {allow}"
        if not off:
            remedy = f"ordinary users may not; run kaput as root, or allow {allow}"
    return f"cannot create network namespaces ({complaint}): {remedy}"


def _read_setting(file: str) -> str | None:
    try:
        return Path("/proc/sys", file).read_text().strip()
    except OSError:
        return None


# The value is the process id, so that a kaput started from inside does not count as marked.
MARK = "KAPUT_CLIENTS_NAMESPACE"


def inside() -> bool:
    """Whether this process is in a namespace that kaput created for it."""
    return os.environ.get(MARK) == own_marker()


def check_inside() -> None:
    """Raises LabError unless this process is in such a namespace: a library cannot restart its program."""
    if not inside():
        raise LabError(
            "network: namespaces needs a program that kaput started in its own network namespace: "
            "kaput inside COMMAND ..."
        )


def enter(arguments: Sequence[str], needs: Collection[str] = ()) -> None:
    """Restarts inside with the same arguments; returns at once if already inside. `needs`: what the faults
    need from the kernel (capability_checks.NEEDS). Raises LabError naming what is missing.
    """
    if inside():
        raise_loopback()
        return
    way = namespace_command(needs)
    sys.stdout.flush()
    sys.stderr.flush()
    # -P: do not import modules from the working directory.
    again = [*way, sys.executable, "-P", "-m", "kaput", *arguments]
    os.execve(again[0], again, {**os.environ, MARK: own_marker()})
