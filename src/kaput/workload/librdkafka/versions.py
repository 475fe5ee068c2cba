"""Versions of confluent-kafka other than kaput's own, for clients with a `client-version`.

Each is a folder in the user's cache that comes first on the Python path of the client's process; everything
else is kaput's. Not here: which versions a scenario may name (scenario/checks).
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from kaput.cache import cache_dir, exclusive
from kaput.errors import DistributionError, UsageError

PACKAGE = "confluent-kafka"
_TIMEOUT_S = 300
_KNOWN = re.compile(r"from versions: ([^)]*)\)")
_NONE = re.compile(r"No matching distribution|no version of|no wheels|not find a version", re.IGNORECASE)
_SHOWN = 3


def packages(version: str, note: Callable[[str], None] = lambda text: None) -> Path:
    """The folder of that version; installs it first if necessary, and says so through `note`. Raises
    UsageError if there is no such version, DistributionError if it cannot be installed.
    """
    root = cache_dir("clients")
    folder = root / f"{PACKAGE}-{version}-{sys.implementation.cache_tag}"
    if not folder.is_dir():
        with exclusive(root / ".lock", _TIMEOUT_S):
            if not folder.is_dir():  # another kaput may have installed it while this one waited
                note(f"installing {PACKAGE} {version} (once)")
                _install(version, root, folder)
    return folder


def environment(version: str) -> dict[str, str]:
    """Environment variables for a client of that version. Raises as `packages` does."""
    paths = [str(packages(version)), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(filter(None, paths))}


def _install(version: str, root: Path, folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=".installing-", dir=root) as name:
        target = Path(name) / "packages"
        words = [*_installer(), "--target", str(target), "--no-deps", "--only-binary", ":all:"]
        try:
            done = subprocess.run(
                [*words, f"{PACKAGE}=={version}"],
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise DistributionError(f"{PACKAGE} {version} cannot be installed: {error}") from None
        if done.returncode:
            raise _failure(version, done.stderr)
        target.replace(folder)


def _installer() -> list[str]:
    """pip, or uv if Python has no pip. Raises DistributionError."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    beside = Path(sys.executable).with_name("uv")
    uv = str(beside) if beside.exists() else shutil.which("uv")
    if uv is None:
        raise DistributionError(
            f"another version of {PACKAGE} needs pip or uv: {sys.executable} -m ensurepip"
        )
    return [uv, "pip", "install", "--quiet", "--python", sys.executable]


def _failure(version: str, stderr: str) -> DistributionError | UsageError:
    if not _NONE.search(stderr):
        last = (stderr.strip().splitlines() or ["no error output"])[-1]
        return DistributionError(f"{PACKAGE} {version} cannot be installed: {last}")
    known = _KNOWN.search(stderr)
    newest = [] if known is None else known[1].split(", ")[: -_SHOWN - 1 : -1]
    newest_text = f"; the newest are {', '.join(newest)}" if newest else ""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return UsageError(f"there is no {PACKAGE} {version} for Python {python} on this machine{newest_text}")
