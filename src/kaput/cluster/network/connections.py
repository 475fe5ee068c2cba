"""The TCP connections of a namespace: listed from /proc, torn down by the kernel (SOCK_DESTROY)."""

from __future__ import annotations

import contextlib
import errno
import socket
import struct
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from kaput.cluster.network.interface import TcpConnection
from kaput.cluster.network.netlink import Netlink
from kaput.errors import LabError

SOCK_DIAG = 4  # the netlink family
_ESTABLISHED = "01"
_MAPPED = "0000000000000000FFFF0000"  # an IPv4 address in an IPv6 socket, as the kernel writes it
_MESSAGES_MAX = 64  # sent at once: more acknowledgements might not fit into the socket's buffer
_NOWHERE = (0, 0, 0, 0)


def established(pid: int, peers: Collection[str]) -> set[TcpConnection]:
    """The connections with these addresses in the namespace of this process. Raises LabError."""
    connections = set()
    for name in ("tcp", "tcp6"):
        try:
            lines = Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]
        except OSError as error:
            raise LabError(f"the connections of process {pid} cannot be read: {error}") from None
        for line in lines:
            _, local, remote, state, *_ = line.split()
            peer = _parse_address(remote)
            if state == _ESTABLISHED and peer in peers:
                connections.add(TcpConnection(_parse_port(local), peer, _parse_port(remote)))
    return connections


def tear_down(pid: int, peers: Collection[str]) -> None:
    """Ends a namespace's connections with these addresses at both ends. Raises LabError if that cannot be."""
    with contextlib.closing(Netlink(pid, SOCK_DIAG)) as kernel:
        destroy(kernel, [each for each in sockets(kernel) if _peer(each) in peers])


def sockets(kernel: Netlink) -> list[Any]:
    """The kernel's descriptions of the established connections of a namespace. Raises LabError."""
    from pyroute2.netlink.diag import SOCK_DIAG_BY_FAMILY, inet_diag_msg

    families = (socket.AF_INET, socket.AF_INET6)
    return [
        message
        for family in families
        for message in kernel.look(_list_message(family), {SOCK_DIAG_BY_FAMILY: inet_diag_msg})
    ]


def destroy(kernel: Netlink, message: Sequence[Any]) -> None:
    """Ends these connections, except those that have ended by themselves meanwhile. Raises LabError."""
    messages = [_destroy_message(each) for each in message]
    for first in range(0, len(messages), _MESSAGES_MAX):
        try:
            kernel.change(messages[first : first + _MESSAGES_MAX], forgiven=(errno.ENOENT,))
        except LabError as error:
            raise LabError(f"TCP connections cannot be torn down: {error}") from None


def _request(kind: int, family: int, flags: int = 0) -> Any:
    from pyroute2.netlink import NLM_F_ACK, NLM_F_REQUEST
    from pyroute2.netlink.diag import inet_diag_req

    message = inet_diag_req()
    message["header"]["type"] = kind
    message["header"]["flags"] = NLM_F_REQUEST | NLM_F_ACK | flags
    message["sdiag_family"], message["sdiag_protocol"] = family, socket.IPPROTO_TCP
    return message


def _list_message(family: int) -> Any:
    from pyroute2.netlink import NLM_F_DUMP
    from pyroute2.netlink.diag import SOCK_DIAG_BY_FAMILY

    message = _request(SOCK_DIAG_BY_FAMILY, family, NLM_F_DUMP)
    message["idiag_states"] = 1 << int(_ESTABLISHED)
    message["idiag_src"] = message["idiag_dst"] = _NOWHERE
    return message


def _destroy_message(connection: Any) -> Any:
    from pyroute2.netlink.diag import SOCK_DESTROY

    family = connection["idiag_family"]
    message = _request(SOCK_DESTROY, family)
    message["idiag_src"], message["idiag_dst"] = (
        _as_words(family, connection[address]) for address in ("idiag_src", "idiag_dst")
    )
    # Without the cookie, the kernel takes any socket with these addresses. If the connection has ended, that
    # is the listening socket of the server, which would accept nothing any more.
    for field in ("idiag_sport", "idiag_dport", "idiag_if", "idiag_cookie"):
        message[field] = connection[field]
    return message


def _peer(message: Any) -> str:
    return str(message["idiag_dst"]).removeprefix("::ffff:")


def _as_words(family: int, address: str) -> tuple[int, ...]:
    words = socket.inet_pton(family, address)
    return struct.unpack(">4I", words.ljust(16, b"\0"))


def _parse_port(text: str) -> int:
    return int(text.rpartition(":")[2], 16)


def _parse_address(text: str) -> str:
    """An IPv4 address from the kernel's hexadecimal form; IPv6 only if IPv4-mapped."""
    digits = text.partition(":")[0]
    if len(digits) == 32 and not digits.startswith(_MAPPED):
        return ""
    return socket.inet_ntoa(struct.pack("=I", int(digits[-8:], 16)))
