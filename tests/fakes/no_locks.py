"""`python no_locks.py PROGRAM ARGS...`: runs a program for which the kernel refuses flock(2), with ENOLCK.

A stand-in for a file system without locks: a seccomp filter that the program and its children inherit.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys

_FLOCK = {"x86_64": 73, "aarch64": 32}
_SET_NO_NEW_PRIVS, _SET_SECCOMP, _FILTER = 38, 22, 2
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000


def possible() -> bool:
    """Whether this system can refuse a single call."""
    return sys.platform == "linux" and platform.machine() in _FLOCK


def _refuse(number: int) -> None:
    program = b"".join(
        struct.pack("HBBI", *instruction)
        for instruction in [
            (_LOAD, 0, 0, 0),
            (_JUMP_IF_EQUAL, 0, 1, number),
            (_RETURN, 0, 0, _ERRNO | errno.ENOLCK),
            (_RETURN, 0, 0, _ALLOW),
        ]
    )
    code = ctypes.create_string_buffer(program, len(program))
    named = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in ((_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (_SET_SECCOMP, _FILTER, named, 0, 0)):
        if libc.prctl(*arguments) != 0:
            raise OSError(ctypes.get_errno(), "prctl")


if __name__ == "__main__":
    _refuse(_FLOCK[platform.machine()])
    os.execvp(sys.argv[1], sys.argv[1:])
