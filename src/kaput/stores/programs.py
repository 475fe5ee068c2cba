"""The server programs in the user's cache: fetched and verified, or built. Not here: starting them."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import zipfile
from pathlib import Path

from kaput.cache import cache_dir, exclusive
from kaput.cluster.ivy import TOTAL_TIMEOUT_S, fetch
from kaput.cluster.lock import LockedJar, sha256_of
from kaput.errors import DistributionError
from kaput.java import Java

# From Maven Central, where they are published for integration tests: without plugins and without Java.
_ZIPS = {
    "opensearch": LockedJar(
        "org.opensearch.distribution.integ-test-zip",
        "opensearch",
        "2.17.0",
        "e52c98b626cd17843f91399cdbb3a3c74dedc04df64335c11342eecee2b7c92c",
    ),
    "elasticsearch": LockedJar(
        "org.elasticsearch.distribution.integ-test-zip",
        "elasticsearch",
        "8.17.0",
        "c3e814c3fa6b31ffaa2bad55c3aa2121fd595b3ffe08a7adf3a4579adbcb91d9",
    ),
}
_MODULE = Path(__file__).parent / "mongodb"
_BUILD_TIMEOUT_S = 900


class GoNotFound(DistributionError):
    """Go is missing, which builds FerretDB."""


def search_engine(kind: str, java: Java) -> Path:
    """The directory of opensearch or elasticsearch, fetched if missing. Raises DistributionError."""
    locked, root = _ZIPS[kind], cache_dir("stores")
    home = root / f"{locked.artifact}-{locked.version}"
    if not home.is_dir():
        with exclusive(root / ".lock", TOTAL_TIMEOUT_S):
            if not home.is_dir():  # another kaput may have fetched it while this one waited
                _fetch(locked, java, root, home)
    return home


def _fetch(locked: LockedJar, java: Java, root: Path, home: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=".fetching-", dir=root) as name:
        staging = Path(name)
        module = (locked.group, locked.artifact, locked.version)
        fetch([module], java, staging, lambda: None, ext="zip")
        fetched = (staging / locked.relative).with_suffix(".zip")
        if (found := sha256_of(fetched)) != locked.sha256:
            raise DistributionError(
                f"{fetched.name} is not the one that kaput knows: expected SHA-256 {locked.sha256}, "
                f"found {found}"
            )
        with zipfile.ZipFile(fetched) as archive:
            archive.extractall(staging / "files")
        (staging / "files" / home.name).rename(home)


def mongodb() -> Path:
    """A server program for MongoDB's protocol, built if missing. Raises GoNotFound, DistributionError."""
    root = cache_dir("stores")
    program = root / f"ferretdb-{sha256_of(_MODULE / 'go.sum')[:16]}"
    if not program.is_file():
        go = shutil.which("go")
        if go is None:
            raise GoNotFound("FerretDB is built with Go, and there is no go on the PATH: https://go.dev/dl")
        with exclusive(root / ".lock", _BUILD_TIMEOUT_S):
            if not program.is_file():
                _build(go, root, program)
    return program


def _build(go: str, root: Path, program: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=".building-", dir=root) as name:
        source = Path(name)
        for file in ("go.mod", "go.sum", "main.go"):
            shutil.copy(_MODULE / file, source)
        done = subprocess.run(
            [go, "build", "-trimpath", "-buildvcs=false", "-o", "mongodb", "."],
            cwd=source,
            env={**os.environ, "GOFLAGS": "-mod=readonly"},
            capture_output=True,
            text=True,
            timeout=_BUILD_TIMEOUT_S,
            check=False,
        )
        if done.returncode != 0:
            raise DistributionError(f"FerretDB was not built: {done.stderr[-500:]}")
        (source / "mongodb").rename(program)
