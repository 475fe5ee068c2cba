"""Whether this machine can have network namespaces: found out by trying, before anything starts.

What is missing is said in one sentence with its remedy. Not here: making the real ones (namespaces.py).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

from kaput.cluster.network.tools import TOOLS, tool
from kaput.cluster.network.trials import ALWAYS, FAILED, NEEDS
from kaput.errors import LabError, NamespacesError

AS_ROOT = ("--net",)
AS_USER = ("--user", "--map-root-user", "--net")
_TIMEOUT_S = 20
_UNSHARE_FAILED = 1  # its own status; where it cannot start the program, it has others
_SWITCHES = {
    "kernel/apparmor_restrict_unprivileged_userns": ("1", "kernel.apparmor_restrict_unprivileged_userns=0"),
    "kernel/unprivileged_userns_clone": ("0", "kernel.unprivileged_userns_clone=1"),
    "user/max_user_namespaces": ("0", "user.max_user_namespaces=10000"),
}


def way_in(needs: Collection[str] = ()) -> list[str]:
    """The command that starts a program in a namespace of its own.

    Raises LabError saying what is missing, NamespacesError where that is the kernel's matter.
    """
    if sys.platform != "linux":
        raise NamespacesError(
            f"network namespaces need Linux, and this is {sys.platform}; "
            "run a scenario with cluster.network: loopback, or use a Linux machine"
        )
    _check_tools()
    why: LabError | None = None
    # A root without the right to make namespaces, as in many containers, may still have that of any user.
    for options in [AS_ROOT, AS_USER] if os.geteuid() == 0 else [AS_USER]:
        way = [tool("unshare"), *options, *(["--mount"] if "tmpfs" in needs else [])]
        try:
            _try(way, needs)
        except LabError as error:
            why = why or error
            continue
        return way
    assert why is not None
    raise why


def _check_tools() -> None:
    absent = [name for name in TOOLS if not Path(tool(name)).is_absolute()]
    if absent:
        raise LabError(
            f"network namespaces need {' and '.join(absent)} of util-linux, which this system lacks; "
            "install with: apt-get install util-linux (Debian, Ubuntu) or dnf install util-linux (Fedora)"
        )


def _try(way: Sequence[str], needs: Collection[str]) -> None:
    """One attempt at everything, in a namespace that is gone afterwards. Raises LabError."""
    # -P: a file of the working directory must not be taken for a module.
    trials = [sys.executable, "-P", "-m", "kaput.cluster.network.trials", *sorted(needs)]
    try:
        done = subprocess.run(
            [*way, *trials],
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
    _, found, last = done.stdout.rpartition("@")
    name, _, said = last.partition("\n")
    complaint = " ".join((said if found else done.stdout).split())[:300]
    if not found or name == "lo":
        raise NamespacesError(_not_allowed(complaint))
    missing = (ALWAYS | NEEDS)[name].missing
    raise NamespacesError(f"this machine lacks {missing}, which network namespaces need: {complaint}")


def _not_allowed(complaint: str) -> str:
    if "root filesystem propagation" in complaint:
        remedy = "the root directory is no mount point, as in a chroot; use a container or pivot_root"
    elif os.geteuid() == 0:
        remedy = "this root has not the right to; give the container CAP_SYS_ADMIN and CAP_NET_ADMIN"
    else:
        off = [setting for file, (value, setting) in _SWITCHES.items() if _reads(file) == value]
        allow = " ".join(off) if off else "user namespaces (see your system's manual)"
        remedy = f"an ordinary user may not; run kaput as root, or allow it as root with: sysctl -w {allow}"
        if not off:
            remedy = f"an ordinary user may not; run kaput as root, or allow {allow}"
    return f"network namespaces cannot be made ({complaint}): {remedy}"


def _reads(file: str) -> str | None:
    try:
        return Path("/proc/sys", file).read_text().strip()
    except OSError:
        return None
