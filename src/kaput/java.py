"""Finds Java: the one in JAVA_HOME if that is set, else `java` on the PATH."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from kaput.errors import JavaError

OLDEST = 17
_INSTALL = (
    "apt install openjdk-17-jre-headless (or openjdk-21-jre-headless), "
    "dnf install java-21-openjdk-headless, or brew install --cask temurin@21"
)


@dataclass(frozen=True)
class Java:
    """A Java that is new enough: its launcher, feature version and full version."""

    path: Path
    version: int
    text: str
    build: str  # the full output of `java -version`, so that class archives of other builds are not used


def find_java() -> Java:
    """The Java to use. Raises JavaError if it is missing, broken or older than 17."""
    home = os.environ.get("JAVA_HOME")
    if home:
        path = Path(home) / "bin" / "java"
        if not os.access(path, os.X_OK):
            raise _missing_java(f"JAVA_HOME is {home}, which has no bin/java")
        return _query_version(path, f"JAVA_HOME ({home})")
    on_path = shutil.which("java")
    if on_path is None:
        raise _missing_java("there is no java on the PATH and JAVA_HOME is not set")
    return _query_version(Path(on_path).absolute(), f"java on the PATH ({on_path})")


@functools.cache  # asking takes 0.1 s or more, and several callers ask
def _query_version(path: Path, where: str) -> Java:
    try:
        done = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _missing_java(f"{where} does not start ({error})") from None
    match = re.search(r'version "((?:1\.)?(\d+)[^"]*)"', done.stderr)
    if done.returncode != 0 or match is None:
        raise _missing_java(f"{where} does not work")
    version = int(match[2])
    if version < OLDEST:
        raise _missing_java(f"{where} is {match[1]}")
    return Java(path, version, match[1], done.stderr)


def _missing_java(why: str) -> JavaError:
    return JavaError(f"Java {OLDEST} or newer is needed, but {why}; install it: {_INSTALL}")
