"""A small separate file system for a broker's data: it can be filled (tmpfs), frozen or made to fail (ext4).

kaput is in a mount namespace (network/reexec.py), so a mount is visible only inside it, and ends with its
last process. Not here: the faults (faults/disk_*.py), and unmounting (processes/mounts.py).
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from kaput.errors import LabError
from kaput.processes.mounts import opened, tool, unmount

FileSystem = Literal["tmpfs", "ext4"]
# linux/loop.h
_GET_FREE, _SET_FD, _CLEAR_FD, _SET_STATUS = 0x4C82, 0x4C00, 0x4C01, 0x4C04
_AUTOCLEAR = 4  # the device is released when nothing uses it any more, however that came about
_INFO = struct.Struct("<5Q4I128x32x16x")
_TRIES = 20  # others may take the free device first


def mount(path: Path, size_mb: int, file_system: FileSystem = "tmpfs") -> None:
    """Mounts an empty file system of `size_mb` MiB at `path`. Raises LabError."""
    path.mkdir(parents=True, exist_ok=True)
    if file_system == "tmpfs":
        _mount("kaput", path, "tmpfs", f"size={size_mb}m,mode=0755")
        return
    with _loop_error(path):
        device = _attached(path.with_name(f"{path.name}.img"), size_mb)
    try:
        _mount(_name_of(device), path, "ext4", "")
    finally:
        os.close(device)
    with suppress(OSError):
        (path / "lost+found").rmdir()  # Kafka takes each directory there for a partition's


def device_of(path: Path) -> Path:
    """The loop device of the file system that is mounted at this very path. Raises LabError."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        where = before.split()[4].encode().decode("unicode_escape")
        if where == str(path.resolve()) and after.split()[1].startswith("/dev/loop"):
            return Path(after.split()[1])
    raise LabError(f"{path} is not a file system of its own on a loop device")


def sync(path: Path) -> None:
    """Writes to its device all that was written to the file system at `path`. Raises LabError."""
    libc = ctypes.CDLL(None, use_errno=True)
    with opened(path) as directory:
        if libc.syncfs(directory):
            raise LabError(f"cannot sync the disk at {path}: {os.strerror(ctypes.get_errno())}")


def mount_again(path: Path) -> None:
    """Mounts what was written to the device anew, through another device: whoever still has a file of the old
    mount open, such as kaput itself, keeps that until it closes it. Raises LabError.
    """
    old = os.open(device_of(path), os.O_RDWR)
    try:
        with _loop_error(path):
            device = _on_free_device(old)
    finally:
        os.close(old)
    try:
        if not unmount(path):
            raise LabError(f"{path} cannot be unmounted")
        _mount(_name_of(device), path, "ext4", "")
    finally:
        os.close(device)


def _name_of(device: int) -> str:
    return str(Path(f"/proc/self/fd/{device}").readlink())


@contextmanager
def _loop_error(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise LabError(f"no loop device for a separate disk at {path}: {error.strerror}") from None


def _attached(image: Path, size_mb: int) -> int:
    """A file descriptor of a loop device over a new file, which has no name any more."""
    with image.open("wb") as file:
        file.truncate(size_mb << 20)
    try:
        _make_ext4(image)
        with image.open("r+b") as file:
            return _on_free_device(file.fileno())
    finally:
        image.unlink()


def _make_ext4(image: Path) -> None:
    command = [tool("mkfs.ext4"), "-q", "-F", "-m", "0", str(image)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL
        )
    except OSError as error:
        raise LabError(f"mkfs.ext4 cannot be started: {error.strerror}; install e2fsprogs") from None
    if done.returncode:
        raise LabError(f"mkfs.ext4: {done.stderr.strip()[:300]}")


def _on_free_device(file: int) -> int:
    control = os.open("/dev/loop-control", os.O_RDWR)
    try:
        for attempt in range(_TRIES):
            device = os.open(f"/dev/loop{fcntl.ioctl(control, _GET_FREE)}", os.O_RDWR)
            try:
                _attach(device, file)
                return device
            except OSError:
                os.close(device)
                if attempt == _TRIES - 1:
                    raise
    finally:
        os.close(control)
    raise AssertionError("the last attempt returns or raises")


def _attach(device: int, file: int) -> None:
    fcntl.ioctl(device, _SET_FD, file)
    try:
        fcntl.ioctl(device, _SET_STATUS, _INFO.pack(*[0] * 8, _AUTOCLEAR))
    except OSError:
        fcntl.ioctl(device, _CLEAR_FD)
        raise


def _mount(source: str, path: Path, file_system: str, options: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    arguments = source.encode(), os.fsencode(path), file_system.encode(), ctypes.c_ulong(0), options.encode()
    if libc.mount(*arguments):
        raise LabError(f"cannot mount a separate disk at {path}: {os.strerror(ctypes.get_errno())}")
