"""A Chromium for the tests: the system's, else playwright's own; installed here where neither is there.

playwright brings a Node, which needs a library that a bare system lacks: that is installed in the same way.

Through the registries that the machine already uses: apt as root, else playwright's. Where nothing can be
had, `Missing` says why, and the tests are skipped with that sentence.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from playwright.sync_api import Browser, Error, Playwright

_NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
_APT_S = 300
_LAUNCH_MS = 120_000  # a busy machine
_DOWNLOAD_S = 180


class Missing(Exception):
    """No browser can be had; the sentence says what was tried."""


def check_driver() -> None:
    """What playwright talks to a browser through can be started; else what it lacks is installed. Raises
    Missing.
    """
    with _one_at_a_time():
        if why := _driver():
            lacking = _apt("libatomic1")
            if lacking or (why := _driver()):
                raise Missing(
                    f"playwright's driver does not start: {'; '.join(filter(None, (why, lacking)))}"
                )


def launched(playwright: Playwright) -> Browser:
    """A running Chromium. Raises Missing."""
    with _one_at_a_time():
        tried = []
        for install in (_nothing, partial(_apt, "chromium"), _playwrights):
            said = install()
            if said:
                tried.append(said)
            for path in _candidates(playwright):
                try:
                    return playwright.chromium.launch(executable_path=path, timeout=_LAUNCH_MS)
                except Error as error:
                    tried.append(f"{path}: {str(error).splitlines()[0]}")
    raise Missing("no Chromium: " + ("; ".join(dict.fromkeys(tried)) or "nothing could be installed"))


def _candidates(playwright: Playwright) -> Iterator[str]:
    for name in _NAMES:
        if found := shutil.which(name):
            yield found
    if Path(playwright.chromium.executable_path).exists():
        yield playwright.chromium.executable_path


def _nothing() -> str:
    return ""


def _driver() -> str:
    return _ran([sys.executable, "-m", "playwright", "--version"], _LAUNCH_MS // 1000, dict(os.environ))


def _apt(package: str) -> str:
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return "apt-get needs root"
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "-q", "-y", "--no-install-recommends", package]
    return _ran(["apt-get", "update", "-q"], _APT_S, environment) or _ran(install, _APT_S, environment)


def _playwrights() -> str:
    return _ran([sys.executable, "-m", "playwright", "install", "chromium"], _DOWNLOAD_S, dict(os.environ))


def _ran(command: list[str], bound_s: int, environment: dict[str, str]) -> str:
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
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{name}: {type(error).__name__}"
    last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
    return f"{name} failed ({' '.join(last)})" if done.returncode else ""


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Two workers must not install at once."""
    with (Path(tempfile.gettempdir()) / f"kaput-tests-chromium-{os.geteuid()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
