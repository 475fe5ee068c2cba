"""A Chromium for the tests: the system's, else playwright's own; installed here where neither is there.

playwright brings a Node, which needs a library that a bare system lacks: that is installed in the same way.

Through the registries that the machine already uses: apt as root, else playwright's. Where nothing can be
had, `Missing` says why, and the tests are skipped with that sentence.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from playwright.sync_api import Browser, Error, Playwright

from system_packages import Missing, apt, one_at_a_time, ran

_NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
_ARGS = ["--disable-gpu"]  # there is none, and to play one takes a fifth of its time
_LAUNCH_MS = 120_000  # a busy machine
_DOWNLOAD_S = 180


def check_driver() -> None:
    """What playwright talks to a browser through can be started; else what it lacks is installed. Raises
    Missing.
    """
    with one_at_a_time():
        if why := _driver():
            lacking = apt("libatomic1")
            if lacking or (why := _driver()):
                raise Missing(
                    f"playwright's driver does not start: {'; '.join(filter(None, (why, lacking)))}"
                )


def launched(playwright: Playwright) -> Browser:
    """A running Chromium. Raises Missing."""
    with one_at_a_time():
        tried = []
        for install in (_nothing, partial(apt, "chromium"), _playwrights):
            said = install()
            if said:
                tried.append(said)
            for path in _candidates(playwright):
                try:
                    return playwright.chromium.launch(executable_path=path, args=_ARGS, timeout=_LAUNCH_MS)
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
    return ran([sys.executable, "-m", "playwright", "--version"], _LAUNCH_MS // 1000, dict(os.environ))


def _playwrights() -> str:
    return ran([sys.executable, "-m", "playwright", "install", "chromium"], _DOWNLOAD_S, dict(os.environ))
