"""The classes that users run are what their sources say."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from waiting import PATIENCE_S

ROOT = Path(__file__).parents[2]
JAVAC = shutil.which("javac")


def _release() -> int:
    """Of the JDK here; 0: none."""
    if JAVAC is None:
        return 0
    said = subprocess.run([JAVAC, "-version"], capture_output=True, text=True, check=True, timeout=60)
    return int((said.stdout or said.stderr).split()[1].split(".")[0])


def test_classes_are_compiled_from_their_sources(tmp_path: Path) -> None:
    """Byte for byte, without a warning: `make java` makes it anew."""
    if _release() != 17:
        pytest.skip("no JDK of release 17 here: another one writes other bytes")
    script = ROOT / "scripts" / "compile_java.py"
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert (done.returncode, done.stderr) == (0, "")
    kept = {path.name: path.read_bytes() for path in (ROOT / "src").rglob("*.class")}
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == kept
    assert set(kept) == {"ConfigNames.class", "KaputProducer.class", "RequestVersions.class"}
