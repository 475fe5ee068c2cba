"""What other people's tests get: a wheel in an environment of its own, its fixtures in their own project."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from waiting import PATIENCE_S

ROOT = Path(__file__).parents[3]
PROJECT = Path(__file__).with_name("project.py")


def ran(*command: object, cwd: Path) -> str:
    """What a command printed; its failure is the test's."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.long
def test_installed_wheel_provides_the_fixtures_to_another_project(tmp_path: Path) -> None:
    """A wheel is built and installed; pytest finds the plugin; three tests pass; nothing is left."""
    uv = Path(sys.executable).with_name("uv")
    python = tmp_path / "venv" / "bin" / "python"
    ran(
        uv, "build", "--quiet", "--wheel", "--no-build-isolation", "--python", sys.executable,
        "--out-dir", tmp_path, cwd=ROOT,
    )  # fmt: skip
    (wheel,) = tmp_path.glob("kaput-*.whl")
    ran(uv, "venv", "--quiet", "--python", sys.executable, tmp_path / "venv", cwd=tmp_path)
    ran(
        uv, "pip", "install", "--quiet", "--python", python, "--constraint", ROOT / "requirements-dev.lock",
        wheel, "pytest", cwd=tmp_path,
    )  # fmt: skip
    project = tmp_path / "project"
    project.mkdir()
    shutil.copy(PROJECT, project / "test_orders.py")
    (project / "pytest.ini").write_text("[pytest]\nkaput_cluster =\n    brokers=3\n    controllers=1\n")
    said = ran(python, "-m", "pytest", "-q", "--strict-markers", "--basetemp", project / "tmp", cwd=project)
    assert "3 passed" in said, said
    lines = [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]
    assert not [line for line in lines if str(project) in line]
    logs = sorted(path.parent.name for path in project.glob("tmp/kafka-lab-shared0/*/server.log"))
    assert logs == ["1", "101", "2", "3"]
    assert not list(project.glob("tmp/**/data"))
