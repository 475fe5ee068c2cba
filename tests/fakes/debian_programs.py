"""Programs from Debian's packages for tests: the system's, else unpacked from packages that apt downloads.

They are unpacked, not installed: no service is started, and no root is needed where apt has its lists.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_APT_S = 300


class Missing(Exception):
    """The program cannot be had; the sentence says what was tried."""


# They look for their files where the package would have put them: for this process they are there.
_AS_IF_INSTALLED = 'mount --bind "$0" /usr/share && exec "$@"'


def command(name: str, package: str) -> list[str]:
    """What starts the program of that name; its arguments follow. Raises Missing."""
    if found := shutil.which(name):
        return [found]
    path = _unpacked(name, package)
    unshare = ["unshare", "--mount", *(["--user", "--map-root-user"] if os.geteuid() else [])]
    return [*unshare, "sh", "-c", _AS_IF_INSTALLED, str(path.parents[1] / "share"), str(path)]


def _unpacked(name: str, package: str) -> Path:
    with _one_at_a_time() as folder:
        path = folder / package / "usr" / "bin" / name
        if not path.exists():
            _unpack(package, folder)
        if not path.exists():
            raise Missing(f"Debian's package {package} has no {name}")
    return path


def _unpack(package: str, folder: Path) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise Missing(f"no {package}: neither is it installed, nor is this a Debian that could download it")
    download = ["apt-get", "download", "-q", package]
    if _failed(download, folder) and os.geteuid() == 0:
        _failed(["apt-get", "update", "-q"], folder)
    if why := _failed(download, folder):
        raise Missing(f"no {package}: {why}")
    for archive in folder.glob(f"{package}_*.deb"):
        # Beside its place, and then moved: what is there is whole.
        with tempfile.TemporaryDirectory(dir=folder) as unpacked:
            if why := _failed(["dpkg-deb", "--extract", str(archive), unpacked], folder):
                raise Missing(f"no {package}: {why}")
            Path(unpacked).replace(folder / package)
            Path(unpacked).mkdir()


def _failed(command: list[str], folder: Path) -> str:
    """What went wrong; nothing where all is well."""
    try:
        done = subprocess.run(
            command, cwd=folder, check=False, capture_output=True, text=True, timeout=_APT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{' '.join(command[:2])}: {type(error).__name__}"
    last = " ".join((done.stderr.strip() or done.stdout.strip()).splitlines()[-1:])
    return f"{' '.join(command[:2])} failed ({last})" if done.returncode else ""


@contextmanager
def _one_at_a_time() -> Iterator[Path]:
    """The folder that they are unpacked in; two workers must not do that at once."""
    folder = Path(tempfile.gettempdir()) / f"kaput-tests-debian-{os.geteuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder
