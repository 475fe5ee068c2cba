"""Locked jars: what is verified when, and the error when a jar is not the locked one."""

import os
import threading
from pathlib import Path

import pytest

from kaput.cache import exclusive
from kaput.cluster import distribution as module
from kaput.cluster.distribution import from_home, resolve
from kaput.cluster.lock import LOCKS, read_lock, sha256_of
from kaput.errors import DistributionError, LabError, UsageError
from kaput.java import Java
from waiting import PATIENCE_S

NO_JAVA = Java(Path("/nonexistent/java"), 17, "17", "")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with two jars, and a lock file of version 0.0.1 that names them."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    jars = tmp_path / "cache" / "kaput" / "jars"
    lines = ["# comment"]
    for name in ("one", "two"):
        path = jars / "org.example" / f"{name}-1.0.jar"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
        lines.append(f"org.example:{name}:1.0 {sha256_of(path)}")
    locks = tmp_path / "locks"
    locks.mkdir()
    (locks / "kafka-0.0.1.lock").write_text("\n".join(lines) + "\n")
    monkeypatch.setattr("kaput.cluster.lock.LOCKS", locks)
    return jars


def test_complete_cache_needs_neither_java_nor_network(cache: Path) -> None:
    """Everything is there: nothing is fetched, nothing reported."""
    told: list[tuple[int, int]] = []
    found = resolve("0.0.1", NO_JAVA, lambda done, total: told.append((done, total)))
    assert [jar.name for jar in found.jars] == ["one-1.0.jar", "two-1.0.jar"]
    assert found.classpath == os.pathsep.join(str(jar) for jar in found.jars)
    assert told == []


def test_changed_jar_is_rejected_by_name(cache: Path) -> None:
    """The message has the jar, what was expected, what was found, and what to do."""
    resolve("0.0.1", NO_JAVA)
    jar = cache / "org.example" / "two-1.0.jar"
    expected = sha256_of(jar)
    jar.write_text("tampered")
    with pytest.raises(DistributionError) as caught:
        resolve("0.0.1", NO_JAVA)
    assert all(text in str(caught.value) for text in (str(jar), expected, sha256_of(jar), "delete it"))


def test_verified_jars_are_not_rehashed(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second start looks at sizes and times only; a touched file is hashed once more."""
    hashed: list[str] = []

    def counting(path: Path) -> str:
        hashed.append(path.name)
        return sha256_of(path)

    monkeypatch.setattr(module, "sha256_of", counting)
    for expected in (["one-1.0.jar", "two-1.0.jar"], []):
        hashed.clear()
        resolve("0.0.1", NO_JAVA)
        assert hashed == expected
    os.utime(cache / "org.example" / "one-1.0.jar", ns=(1, 1))
    resolve("0.0.1", NO_JAVA)
    assert hashed == ["one-1.0.jar"]


def test_version_without_a_lock_file_error_lists_available_versions() -> None:
    """The user learns what would have worked."""
    with pytest.raises(DistributionError, match=r"Kafka 9\.9\.9 has no lock file; .*4\.3\.1"):
        read_lock("9.9.9")


def test_every_committed_lock_file_is_valid() -> None:
    """Each line parses, nothing is there twice, and the broker and its logging are in."""
    assert any(LOCKS.glob("kafka-*.lock"))
    for path in LOCKS.glob("kafka-*.lock"):
        locked = read_lock(path.stem.removeprefix("kafka-"))
        names = [(jar.group, jar.artifact) for jar in locked]
        assert len(set(names)) == len(names)
        assert all(len(jar.sha256) == 64 for jar in locked)
        assert {"kafka_2.13", "kafka-tools", "slf4j-api"} <= {artifact for _, artifact in names}
        assert "://" not in path.read_text()


def test_malformed_lock_line_is_quoted(cache: Path, tmp_path: Path) -> None:
    """A mistake in a lock file is told with the line."""
    (tmp_path / "locks" / "kafka-0.0.2.lock").write_text("org.example:one\n")
    with pytest.raises(DistributionError, match=r"not a line of a lock file: 'org.example:one'"):
        read_lock("0.0.2")


def test_kafka_home_version_and_id_come_from_its_jars(tmp_path: Path) -> None:
    """--kafka-home: the version is that of its jar, the id changes with any file."""
    libs = tmp_path / "libs"
    libs.mkdir()
    for name in ("kafka_2.13-4.1.0.jar", "kafka-clients-4.1.0.jar"):
        (libs / name).write_text("x")
    first = from_home(tmp_path)
    assert (first.version, len(first.jars)) == ("4.1.0", 2)
    (libs / "kafka-clients-4.1.0.jar").write_text("longer")
    assert from_home(tmp_path).id != first.id


def test_directory_without_kafka_jars_is_rejected(tmp_path: Path) -> None:
    """The sentence says what was looked for."""
    with pytest.raises(UsageError, match=r"is not a Kafka installation: it has no libs/kafka_"):
        from_home(tmp_path)


def test_unusable_cache_directory_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file where the cache should be is the lab's trouble, in a sentence."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(LabError, match="set XDG_CACHE_HOME"):
        resolve("4.3.1", NO_JAVA)


def test_lock_is_exclusive_and_times_out(tmp_path: Path) -> None:
    """A second one waits for the first, and gives up after its time with the file's name."""
    path = tmp_path / ".lock"
    entered = threading.Event()
    with exclusive(path, PATIENCE_S):
        with pytest.raises(LabError, match="another kaput has held"), exclusive(path, 0.3):
            pass
        waiting = threading.Thread(target=lambda: _enter(path, entered))
        waiting.start()
        assert not entered.is_set()
    assert entered.wait(PATIENCE_S)
    waiting.join(PATIENCE_S)


def _enter(path: Path, entered: threading.Event) -> None:
    with exclusive(path, PATIENCE_S):
        entered.set()
