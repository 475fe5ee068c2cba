"""Debian's packages for the tests: installed as root, or only unpacked; one worker at a time."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_APT_S = 300


class Missing(Exception):
    """A program cannot be had; the sentence says what was tried."""


def apt(package: str) -> str:
    """Installs a package. What went wrong; nothing where all is well."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return "apt-get needs root"
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "-q", "-y", "--no-install-recommends", package]
    return ran(["apt-get", "update", "-q"], _APT_S, environment) or ran(install, _APT_S, environment)


def program(name: str, package: str) -> Path:
    """A program of a package that would start a service where it is installed: it is only unpacked, into a
    folder of this user's. Raises Missing.
    """
    if found := shutil.which(name):
        return Path(found)
    folder = Path(tempfile.gettempdir()) / f"kaput-tests-packages-{os.geteuid()}" / package
    path = folder / "usr" / "bin" / name
    with one_at_a_time():
        if not path.exists() and (why := _unpacked(package, folder)):
            raise Missing(f"no {name}: {why}")
    return path


def library(name: str, package: str) -> Path:
    """A shared library of a package, unpacked as programs are. Raises Missing."""
    folder = Path(tempfile.gettempdir()) / f"kaput-tests-packages-{os.geteuid()}" / package
    with one_at_a_time():
        if not (found := list(folder.rglob(name))) and (why := _unpacked(package, folder)):
            raise Missing(f"no {name}: {why}")
    return (found or list(folder.rglob(name)))[0]


def system_of(architecture: str, packages: list[str], into: Path) -> Path:
    """The files of Debian's packages for another architecture, with all that they depend on: unpacked, not
    set up. Raises Missing.
    """
    if shutil.which("apt-get") is None:
        raise Missing("there is no apt-get")
    state, cache, tree = into / "state", into / "cache", into / "tree"
    for folder in (state / "lists" / "partial", cache / "archives" / "partial", tree):
        folder.mkdir(parents=True)
    (state / "status").touch()
    settings = {
        "APT::Architecture": architecture, "APT::Architectures": architecture,
        "APT::Install-Recommends": "false", "APT::Sandbox::User": "",
        "Dir::State": state, "Dir::State::status": state / "status", "Dir::Cache": cache,
    }  # fmt: skip
    apt_get = ["apt-get", "-q", "-y", *(f"-o{name}={value}" for name, value in settings.items())]
    commands = [[*apt_get, "update"], [*apt_get, "--download-only", "install", *packages]]
    for command in commands:
        if why := ran(command, _APT_S, dict(os.environ)):
            raise Missing(f"no {architecture} packages: {why}")
    for archive in sorted((cache / "archives").glob("*.deb")):
        if why := ran(["dpkg-deb", "-x", str(archive), str(tree)], _APT_S, dict(os.environ)):
            raise Missing(why)
    return tree


def _unpacked(package: str, folder: Path) -> str:
    if shutil.which("apt-get") is None:
        return "there is no apt-get"
    folder.mkdir(parents=True, exist_ok=True)
    download = ["apt-get", "download", "-q", package]
    if why := ran(download, _APT_S, dict(os.environ), folder):
        if os.geteuid() != 0:
            return why
        update = ran(["apt-get", "update", "-q"], _APT_S, dict(os.environ))
        if why := update or ran(download, _APT_S, dict(os.environ), folder):
            return why
    (archive,) = folder.glob("*.deb")
    return ran(["dpkg-deb", "-x", str(archive), str(folder)], _APT_S, dict(os.environ))


def ran(command: list[str], bound_s: int, environment: dict[str, str], folder: Path | None = None) -> str:
    """What went wrong; nothing where all is well."""
    name = " ".join(command[:3]) if command[0] != sys.executable else f"playwright {command[3]}"
    try:
        done = subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=bound_s,
            env=environment,
            cwd=folder,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{name}: {type(error).__name__}"
    last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
    return f"{name} failed ({' '.join(last)})" if done.returncode else ""


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Two workers must not install at once."""
    with (Path(tempfile.gettempdir()) / f"kaput-tests-packages-{os.geteuid()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
