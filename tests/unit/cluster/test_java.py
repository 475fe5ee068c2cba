"""Which Java is used, and the error when there is none that will do."""

from pathlib import Path

import pytest

from kaput.errors import JavaError
from kaput.java import find_java


def install(directory: Path, version: str, status: int = 0) -> Path:
    """A program that says what a Java of that version says."""
    directory.mkdir(parents=True)
    path = directory / "java"
    path.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-01' >&2\nexit {status}\n")
    path.chmod(0o755)
    return path


def test_java_home_takes_precedence_over_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JAVA_HOME is what the user says; the PATH is what happens to be there."""
    chosen = install(tmp_path / "home" / "bin", "21.0.2")
    other = install(tmp_path / "path", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", f"{other.parent}:/usr/bin:/bin")
    java = find_java()
    assert (java.path, java.version, java.text) == (chosen, 21, "21.0.2")
    monkeypatch.delenv("JAVA_HOME")
    assert find_java().path == other


def test_java_home_without_java_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong JAVA_HOME is a mistake to be told, not a reason to take another Java."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaError, match=f"JAVA_HOME is {tmp_path}, which has no bin/java") as caught:
        find_java()
    assert all(way in str(caught.value) for way in ("apt install", "dnf install", "brew install"))
    assert caught.value.exit_status == 4
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.22", "16"])
def test_old_java_version_is_rejected(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the 1.8 way of counting is understood as 8."""
    monkeypatch.setenv("JAVA_HOME", str(install(tmp_path / "bin", version).parent.parent))
    with pytest.raises(JavaError, match=f"is {version}; install it"):
        find_java()


def test_missing_java_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is searched for beyond JAVA_HOME and the PATH."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaError, match="no java on the PATH"):
        find_java()


def test_java_stub_that_exits_with_an_error_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some systems have a `java` that is a signpost; it exits with an error."""
    monkeypatch.setenv("JAVA_HOME", str(install(tmp_path / "bin", "17", status=1).parent.parent))
    with pytest.raises(JavaError, match="does not work"):
        find_java()


def test_java_version_without_dots_is_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A first release calls itself just 21, an early one 22-ea."""
    monkeypatch.setenv("JAVA_HOME", str(install(tmp_path / "bin", "22-ea").parent.parent))
    assert find_java().version == 22
