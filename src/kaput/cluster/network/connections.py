"""The TCP connections of a namespace: listed from /proc, torn down by the kernel (SOCK_DESTROY)."""

from __future__ import annotations

import contextlib
import errno
import socket
import struct
from collections.abc import Collection
from pathlib import Path
from typing import Any

from kaput.cluster.network.interface import Connection
from kaput.cluster.network.netlink import Netlink
from kaput.errors import LabError

_NETLINK_SOCK_DIAG = 4
_ESTABLISHED = "01"
_MAPPED = "0000000000000000FFFF0000"  # an IPv4 address in an IPv6 socket, as the kernel writes it
_MESSAGES_MAX = 64  # sent at once: more acknowledgements might not fit into the socket's buffer
_ANY = 0xFFFF_FFFF_FFFF_FFFF  # INET_DIAG_NOCOOKIE: whichever socket has these addresses


def established(pid: int, peers: Collection[str]) -> set[Connection]:
    """The connections with these addresses in the namespace of this process. Raises LabError."""
    found = set()
    for name in ("tcp", "tcp6"):
        try:
            lines = Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]
        except OSError as error:
            raise LabError(f"the connections of process {pid} cannot be read: {error}") from None
        for line in lines:
            _, local, remote, state, *_ = line.split()
            peer = _parse_address(remote)
            if state == _ESTABLISHED and peer in peers:
                found.add(Connection(_parse_port(local), peer, _parse_port(remote)))
    return found


def tear_down(pid: int, host: str, connections: Collection[Connection]) -> None:
    """Ends these connections of `host` at both ends. Raises LabError if the kernel cannot do that."""
    with contextlib.closing(Netlink(pid, _NETLINK_SOCK_DIAG)) as kernel:
        messages = [_destroy_message(host, connection) for connection in sorted(connections)]
        for first in range(0, len(messages), _MESSAGES_MAX):
            try:
                # ENOENT: the connection has ended by itself meanwhile.
                kernel.change(messages[first : first + _MESSAGES_MAX], forgiven=(errno.ENOENT,))
            except LabError as error:
                raise LabError(f"TCP connections cannot be torn down: {error}") from None


def _destroy_message(host: str, connection: Connection) -> Any:
    from pyroute2.netlink import NLM_F_ACK, NLM_F_REQUEST
    from pyroute2.netlink.diag import SOCK_DESTROY, inet_diag_req

    message = inet_diag_req()
    message["header"]["type"] = SOCK_DESTROY
    message["header"]["flags"] = NLM_F_REQUEST | NLM_F_ACK
    message["sdiag_family"], message["sdiag_protocol"] = socket.AF_INET, socket.IPPROTO_TCP
    message["idiag_src"], message["idiag_sport"] = _as_words(host), connection.own_port
    message["idiag_dst"], message["idiag_dport"] = _as_words(connection.peer), connection.peer_port
    message["idiag_cookie"] = _ANY
    return message


def _as_words(address: str) -> tuple[int, int, int, int]:
    return (int.from_bytes(socket.inet_aton(address)), 0, 0, 0)


def _parse_port(text: str) -> int:
    return int(text.rpartition(":")[2], 16)


def _parse_address(text: str) -> str:
    """An IPv4 address from the kernel's hexadecimal form; IPv6 only if IPv4-mapped."""
    digits = text.partition(":")[0]
    if len(digits) == 32 and not digits.startswith(_MAPPED):
        return ""
    return socket.inet_ntoa(struct.pack("=I", int(digits[-8:], 16)))
