"""Other versions of confluent-kafka: what becomes of an installation that fails, and what a process is given.

pip itself: tests/functional/test_java_client.py.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from kaput.errors import DistributionError, UsageError
from kaput.workload.librdkafka import versions


@pytest.fixture
def pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in place of pip, in Python, which a test writes; the cache is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    script = tmp_path / "pip.py"
    monkeypatch.setattr(versions, "_installer", lambda: [sys.executable, str(script)])
    return script


def test_version_is_installed_once_and_first_on_the_path(pip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second client finds it."""
    pip.write_text("import pathlib, sys\npathlib.Path(sys.argv[2], 'confluent_kafka').mkdir(parents=True)\n")
    notes: list[str] = []
    folder = versions.packages("2.6.1", notes.append)
    pip.unlink()
    assert versions.packages("2.6.1", notes.append) == folder and (folder / "confluent_kafka").is_dir()
    assert notes == ["installing confluent-kafka 2.6.1 (once)"]
    monkeypatch.setenv("PYTHONPATH", "/mine")
    assert versions.environment("2.6.1") == {"PYTHONPATH": f"{folder}{os.pathsep}/mine"}


@pytest.mark.parametrize(
    ("said", "kind", "message"),
    [
        (
            "ERROR: Could not find a version that satisfies it (from versions: 1.0, 2.0, 2.1, 2.2)",
            UsageError,
            "there is no confluent-kafka 9.9.9 for Python .* the newest are 2.2, 2.1, 2.0$",
        ),
        (
            "there is no version of confluent-kafka==9.9.9",
            UsageError,
            "there is no confluent-kafka 9.9.9 for",
        ),
        (
            "x\nERROR: no route to host",
            DistributionError,
            "9.9.9 cannot be installed: ERROR: no route to host",
        ),
    ],
)
def test_failed_installation_leaves_nothing(
    said: str, kind: type[Exception], message: str, pip: Path
) -> None:
    """Whose fault it is decides its exit status."""
    pip.write_text(f"import sys\nprint({said!r}, file=sys.stderr)\nsys.exit(1)\n")
    with pytest.raises(kind, match=message):
        versions.packages("9.9.9")
    assert [path.name for path in (pip.parent / "cache" / "kaput" / "clients").iterdir()] == [".lock"]
