"""Whether this machine can have network namespaces: found out by trying, before anything starts.

What is missing is said in one sentence with its remedy. Not here: making the real ones (namespaces.py).
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from kaput.cluster.network.tools import PACKAGES, TIMEOUT_S, tool
from kaput.errors import LabError

AS_ROOT = ("--net",)
AS_USER = ("--user", "--map-root-user", "--net")


@dataclass(frozen=True)
class Trial:
    """A command of the shell to try inside, and what to say when it fails."""

    command: str
    missing: str


_TABLE = (
    "table ip kaput {{ counter c {{ }}; chain i {{ type filter hook input priority 0; "
    "ip saddr 10.0.0.1 tcp flags rst counter name c {end}; }}; }}"
)
# A connection of the trial's own is torn down by ss, or it is not.
_DESTROY = """
import socket, subprocess, sys
listener = socket.create_server(("127.0.0.1", 9))
connection = socket.create_connection(("127.0.0.1", 9), 2)
subprocess.run(["ss", "-tnHK", "dport", "=", "9"], check=True)
connection.settimeout(2)
try:
    connection.recv(1)
except ConnectionError:
    sys.exit(0)
sys.exit("the connection is still there")
"""
ALWAYS = {
    "lo": Trial("ip link set lo up", "rights over its own network namespace"),
    "bridge": Trial("ip link add kaput0 type bridge", "the kernel's bridges (as root: modprobe bridge)"),
    "veth": Trial(
        "ip link add kaput1 type veth peer name kaput2", "the kernel's veth links (as root: modprobe veth)"
    ),
    "nested": Trial("unshare --net true", "namespaces inside its namespace"),
    "enter": Trial("nsenter -t $$ -n true", "entering namespaces that it has made"),
    "filter": Trial(
        f"echo '{_TABLE.format(end='drop')}' | nft -f - && nft list counters table ip kaput",
        "the kernel's packet filter (as root: modprobe nf_tables)",
    ),
}
# What single faults need beside that, by the words that they use for it.
NEEDS = {
    "reject": Trial(
        f"echo '{_TABLE.format(end='reject with tcp reset')}' | nft -f -",
        "the packet filter's reject (as root: modprobe nft_reject_ipv4)",
    ),
    "numgen": Trial(
        f"echo '{_TABLE.format(end='numgen random mod 100 < 5 drop')}' | nft -f -",
        "the packet filter's random numbers (as root: modprobe nft_numgen)",
    ),
    "destroy": Trial(
        f"{shlex.quote(sys.executable)} -c {shlex.quote(_DESTROY)}",
        "a way to tear down TCP connections (a kernel with CONFIG_INET_DIAG_DESTROY)",
    ),
    "tbf": Trial(
        "tc qdisc add dev kaput1 root tbf rate 1mbit burst 32kb latency 100ms",
        "the kernel's token bucket (as root: modprobe sch_tbf)",
    ),
    "tmpfs": Trial(
        "mount -t tmpfs -o size=1m kaput /tmp && umount /tmp",  # in a mount namespace of its own
        "the right to mount a file system of its own (tmpfs)",
    ),
    "nat": Trial(
        "echo 'table ip kaputnat { chain p { type nat hook prerouting priority -100; "
        "tcp dport 1 redirect to :2; }; }' | nft -f -",
        "the packet filter's redirect (as root: modprobe nft_redir nft_chain_nat)",
    ),
}
_SWITCHES = {
    "kernel/apparmor_restrict_unprivileged_userns": ("1", "kernel.apparmor_restrict_unprivileged_userns=0"),
    "kernel/unprivileged_userns_clone": ("0", "kernel.unprivileged_userns_clone=1"),
    "user/max_user_namespaces": ("0", "user.max_user_namespaces=10000"),
}


def way_in(needs: Collection[str] = ()) -> list[str]:
    """The command that starts a program in a namespace of its own. Raises LabError saying what is missing."""
    if sys.platform != "linux":
        raise LabError(
            f"network namespaces need Linux, and this is {sys.platform}; "
            "run a scenario with cluster.network: loopback, or use a Linux machine"
        )
    _check_tools()
    why: LabError | None = None
    # A root without the right to make namespaces, as in many containers, may still have that of any user.
    for options in [AS_ROOT, AS_USER] if os.geteuid() == 0 else [AS_USER]:
        way = [tool("unshare"), *options, *(["--mount"] if "tmpfs" in needs else [])]
        try:
            _try(way, {name: NEEDS[name] for name in needs})
        except LabError as error:
            why = why or error
            continue
        return way
    assert why is not None
    raise why


def _check_tools() -> None:
    absent = [name for name in PACKAGES if not Path(tool(name)).is_absolute()]
    if not absent:
        return
    debian = " ".join(sorted({PACKAGES[name] for name in absent}))
    fedora = debian.replace("iproute2", "iproute iproute-tc")
    raise LabError(
        f"network namespaces need {', '.join(absent)}, which {'is' if len(absent) == 1 else 'are'} not "
        f"installed; install with: apt-get install {debian} (Debian, Ubuntu) or dnf install {fedora} (Fedora)"
    )


def _try(way: Sequence[str], needs: dict[str, Trial]) -> None:
    """One attempt at everything, in a namespace that is gone afterwards. Raises LabError."""
    trials = ALWAYS | needs
    script = "".join(f"echo @{name}; {{ {trial.command}; }} || exit 1\n" for name, trial in trials.items())
    directories = {str(Path(tool(name)).parent) for name in PACKAGES}
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *sorted(directories)])
    try:
        done = subprocess.run(
            [*way, "sh", "-s"],
            input=script,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
            env={**os.environ, "PATH": path},
        )
    except subprocess.TimeoutExpired:
        raise LabError(
            f"network namespaces could not be tried within {TIMEOUT_S} s; is the machine overloaded?"
        ) from None
    if done.returncode == 0:
        return
    _, found, last = done.stdout.rpartition("@")
    name, _, said = last.partition("\n")
    complaint = " ".join((said if found else done.stdout).split())[:300]
    if not found or name == "lo":
        raise LabError(_not_allowed(complaint))
    raise LabError(f"this machine lacks {trials[name].missing}, which network namespaces need: {complaint}")


def _not_allowed(complaint: str) -> str:
    if os.geteuid() == 0:
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
