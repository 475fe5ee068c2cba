"""The file that fills a disk, on a small file system of its own; no broker."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from waiting import PATIENCE_S

FILLING = Path(__file__).with_name("filling.py")


def test_a_disk_is_filled_to_its_last_page_and_freed_again(way: list[str], tmp_path: Path) -> None:
    """Bytes and pages as the system counts them; errors name the path."""
    done = subprocess.run(
        [*way, sys.executable, str(FILLING), str(tmp_path / "disk")],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
