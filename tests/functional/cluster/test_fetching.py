"""Fetching jars with the real Ivy, from a small repository in a directory: no network is needed."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from kaput.cluster import ivy
from kaput.cluster.distribution import resolve
from kaput.errors import DistributionError
from kaput.java import Java
from waiting import PATIENCE_S

_SETTINGS = """<ivysettings><settings defaultResolver="here"/><resolvers>
<ibiblio name="here" m2compatible="true" usepoms="false" useMavenMetadata="false" checksums="" root="{root}"/>
</resolvers></ivysettings>"""
_RESOLVE = """
import sys
from pathlib import Path
from kaput.cluster import lock
from kaput.cluster import ivy
from kaput.cluster.distribution import resolve
from kaput.java import find_java
lock.LOCKS = Path(sys.argv[1])
sys.stdout.write(str(len(resolve("0.0.1", find_java()).jars)))
"""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with two jars, a lock file of version 0.0.1 for them, and an empty cache."""
    lines = []
    for name in ("one", "two"):
        jar = tmp_path / "repository" / "org" / "example" / name / "1.0" / f"{name}-1.0.jar"
        jar.parent.mkdir(parents=True)
        jar.write_bytes(name.encode())
        lines.append(f"org.example:{name}:1.0 {hashlib.sha256(name.encode()).hexdigest()}\n")
    locks = tmp_path / "locks"
    locks.mkdir()
    (locks / "kafka-0.0.1.lock").write_text("".join(lines))
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(_SETTINGS.format(root=(tmp_path / "repository").as_uri()))
    monkeypatch.setattr("kaput.cluster.lock.LOCKS", locks)
    monkeypatch.setenv("KAPUT_IVY_SETTINGS", str(settings))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "repository"


def leftovers(tmp_path: Path) -> list[Path]:
    """What fetching has left in the cache besides jars."""
    return list((tmp_path / "cache" / "kaput" / "jars").glob(".fetching-*"))


def test_only_missing_jars_are_fetched_and_progress_is_counted(
    repository: Path, java: Java, tmp_path: Path
) -> None:
    """Both jars first, then only the one that was removed; progress counts files."""
    told: list[tuple[int, int]] = []
    found = resolve("0.0.1", java, lambda done, total: told.append((done, total)))
    assert [jar.read_text() for jar in found.jars] == ["one", "two"]
    assert (told[0], told[-1]) == ((0, 2), (2, 2))
    found.jars[1].unlink()
    told.clear()
    assert resolve("0.0.1", java, lambda done, total: told.append((done, total))) == found
    assert (told[0], told[-1]) == ((0, 1), (1, 1))
    assert leftovers(tmp_path) == []


def test_jar_with_the_wrong_checksum_is_rejected(repository: Path, java: Java, tmp_path: Path) -> None:
    """A repository that serves something else is found out before the jar gets into the cache."""
    next(repository.rglob("two-1.0.jar")).write_text("trojan")
    with pytest.raises(
        DistributionError, match=r"two-1\.0\.jar from the repository is not org\.example:two:1\.0"
    ) as caught:
        resolve("0.0.1", java)
    assert hashlib.sha256(b"trojan").hexdigest() in str(caught.value)
    assert not list((tmp_path / "cache").rglob("two-1.0.jar"))
    assert leftovers(tmp_path) == []


def test_missing_jar_is_named_in_the_error(
    repository: Path, java: Java, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error itself names it, without Ivy's output."""
    monkeypatch.setattr("kaput.cluster.ivy.RETRY_AFTER_S", ())
    next(repository.rglob("one-1.0.jar")).unlink()
    with pytest.raises(DistributionError, match=r"Kafka 0\.0\.1: not found .*: org\.example:one:1\.0$"):
        resolve("0.0.1", java)


def test_unreachable_repository_says_why(
    repository: Path, java: Java, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connection refused is not the same as a jar that no repository has."""
    monkeypatch.setattr("kaput.cluster.ivy.RETRY_AFTER_S", ())
    (tmp_path / "ivysettings.xml").write_text(_SETTINGS.format(root="http://127.0.0.1:9/"))
    with pytest.raises(DistributionError, match=r"\(java\.net\.ConnectException: Connection refused\): org"):
        resolve("0.0.1", java)


def test_fetching_is_tried_again(
    repository: Path, java: Java, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repository that lacks a locked jar for a moment only makes it later."""
    jar = next(repository.rglob("one-1.0.jar"))
    jar.unlink()
    monkeypatch.setattr("kaput.cluster.ivy.time.sleep", lambda _: jar.write_text("one"))
    assert len(resolve("0.0.1", java).jars) == 2
    assert leftovers(tmp_path) == []


def test_only_missing_jars_are_asked_for_again(
    repository: Path, java: Java, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ivy that fails for another reason fails at once."""
    tries: list[int] = []
    monkeypatch.setattr("kaput.cluster.ivy.RETRY_AFTER_S", (0.0,))
    run = ivy._run
    monkeypatch.setattr(ivy, "_run", lambda *args: (tries.append(1), run(*args)))
    (tmp_path / "ivysettings.xml").write_text("not XML")
    with pytest.raises(DistributionError, match="Ivy failed"):
        resolve("0.0.1", java)
    assert len(tries) == 1
    (tmp_path / "ivysettings.xml").write_text(_SETTINGS.format(root=(tmp_path / "nowhere").as_uri()))
    with pytest.raises(DistributionError, match="not found"):
        resolve("0.0.1", java)
    assert len(tries) == 1 + 2


def test_concurrent_resolves_share_an_empty_cache(repository: Path, tmp_path: Path) -> None:
    """Two kaputs that find the cache empty at the same moment both end up with everything."""
    args = [sys.executable, "-c", _RESOLVE, str(tmp_path / "locks")]
    both = [subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
    said = [process.communicate(timeout=PATIENCE_S) for process in both]
    assert [(process.returncode, out) for process, (out, _) in zip(both, said, strict=True)] == [
        (0, b"2")
    ] * 2
    assert leftovers(tmp_path) == []
