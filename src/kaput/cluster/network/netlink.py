"""Requests to the kernel over netlink, in one network namespace, with a deadline for the answers.

A thread enters the namespace and ends there.
pyroute2 only encodes and decodes messages; the socket is kaput's (docs/decisions/0016 has the reasons).
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from kaput.errors import LabError

TIMEOUT_S = 10.0
_CLONE_NEWNET = 0x40000000
_T = TypeVar("_T")


def run_in_netns(pid: int | None, action: Callable[[], _T]) -> _T:
    """Returns what `action` returns when run in that process's network namespace (None: our own). Raises its
    exceptions, and LabError if the namespace cannot be entered or time runs out.
    """
    returned: list[_T] = []
    raised: list[BaseException] = []

    def go() -> None:
        try:
            if pid is not None:
                _enter(pid)
            returned.append(action())
        except BaseException as error:  # noqa: BLE001 - raised again in the calling thread
            raised.append(error)

    # A daemon thread, so that an action that hangs does not keep kaput from ending.
    thread = threading.Thread(target=go, name="netns", daemon=True)
    thread.start()
    thread.join(TIMEOUT_S)
    if raised:
        raise raised[0]
    if not returned:
        raise LabError(f"the kernel gave no answer about the network within {TIMEOUT_S:.0f} s")
    return returned[0]


def _enter(pid: int) -> None:
    """Moves the calling thread into the namespace, permanently."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        descriptor = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
        try:
            if libc.setns(descriptor, _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        finally:
            os.close(descriptor)
    except OSError as error:
        raise LabError(f"the network namespace of process {pid} cannot be entered: {error}") from None


_TIMEOUT_S = 5.0
_BUFFER = 1 << 18
_SOL_NETLINK, _EXT_ACK = 270, 11
_FLAGS, _SEQUENCE = 6, 8  # offsets in a message's header
_ACK = 4  # NLM_F_ACK
_ERROR, _DONE = 2, 3  # NLMSG_*
_INTERRUPTED = 0x10  # NLM_F_DUMP_INTR: something was changed while it was listed
_TRIES = 5


class Netlink:
    """A socket of one netlink family in the namespace of process `pid` (None: where kaput is). Thread-safe.
    Everything raises LabError with the kernel's message.
    """

    def __init__(self, pid: int | None, family: int) -> None:
        self._lock = threading.Lock()
        self._next = 1
        try:
            self._socket = run_in_netns(
                pid, lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, family)
            )
            self._socket.setsockopt(_SOL_NETLINK, _EXT_ACK, 1)
        except OSError as error:
            raise LabError(f"the kernel has no netlink of family {family}: {error.strerror}") from None
        self._socket.settimeout(_TIMEOUT_S)

    def change(self, messages: Sequence[Any], forgiven: Collection[int] = ()) -> None:
        """Sends all messages; waits for the answers they ask for. `forgiven`: errors (errno) to ignore."""
        encoded = [_encode(message) for message in messages]
        with self._lock:
            for answer in self._exchange(encoded, {}):
                _check(answer, forgiven)

    def look(self, message: Any, kinds: Mapping[int, type]) -> list[Any]:
        """The kernel's answers to a listing request. `kinds`: the class that decodes each message type."""
        encoded = _encode(message)
        for _ in range(_TRIES):
            with self._lock:
                answers = [*self._exchange([encoded], kinds)]
            for answer in answers:
                _check(answer)
            if not any(answer["header"]["flags"] & _INTERRUPTED for answer in answers):
                return [answer for answer in answers if answer["header"]["type"] in kinds]
        raise LabError("the network kept changing while it was being read")

    def close(self) -> None:
        """Closes the socket. For a packet filter this takes some ms, in which the kernel cleans up."""
        self._socket.close()

    def _exchange(self, messages: Sequence[bytearray], kinds: Mapping[int, type]) -> Iterator[Any]:
        """All answers, until every message that asks for an acknowledgement has it."""
        from pyroute2.netlink.marshal import Marshal

        marshal = Marshal()
        marshal.msg_map = dict(kinds)
        first = self._next
        waiting = {first + i for i, message in enumerate(messages) if _flags(message) & _ACK}
        for message in messages:
            struct.pack_into("=I", message, _SEQUENCE, self._next)
            self._next += 1
        try:
            self._socket.sendto(b"".join(messages), (0, 0))
            while waiting:
                for answer in marshal.parse(self._socket.recv(_BUFFER)):
                    sequence = answer["header"]["sequence_number"]
                    if sequence < first:  # left over from an exchange that ended early
                        continue
                    if answer["header"]["type"] in (_ERROR, _DONE):
                        waiting.discard(sequence)
                    yield answer
        except TimeoutError:
            raise LabError(f"the kernel gave no answer over netlink within {_TIMEOUT_S:.0f} s") from None
        except OSError as error:
            raise LabError(error.strerror or str(error)) from None


def _encode(message: Any) -> bytearray:
    """The encoded message, still without its sequence number."""
    message.encode()
    return bytearray(message.data)


def _flags(message: bytearray) -> int:
    return int(struct.unpack_from("=H", message, _FLAGS)[0])


def _check(answer: Any, forgiven: Collection[int] = ()) -> None:
    error = answer["header"]["error"]
    if error is not None and getattr(error, "code", None) not in forgiven:
        raise LabError(str(error.args[-1]) if error.args else str(error))
