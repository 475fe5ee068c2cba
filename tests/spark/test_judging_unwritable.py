"""A run folder that may not be written to is judged like any other; what could not be saved is reported."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from driving import KAPUT
from fakes.histories import History
from fakes.in_session import InSession
from spark.test_analyze_while_recording import opened
from waiting import PATIENCE_S

# What lets root write where nobody may.
_OVERRIDE = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override"]


def bound() -> list[str]:
    """A prefix under which permissions hold for root, too."""
    if os.geteuid() != 0:
        return []
    done = subprocess.run([*_OVERRIDE, "true"], capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip("root, who writes anywhere, and no setpriv to give that up")
    return _OVERRIDE


def analyze(*arguments: object) -> subprocess.CompletedProcess[str]:
    """`kaput analyze --json`, by a user who may not write."""
    command = [
        *bound(),
        *KAPUT,
        "analyze",
        *map(str, arguments),
        "--json",
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


@pytest.fixture
def locked() -> Iterator[list[Path]]:
    """Folders put here can be written to again at the end."""
    folders: list[Path] = []
    yield folders
    for folder in folders:
        allow(folder, 0o755)


def allow(folder: Path, mode: int) -> None:
    """Sets the mode of a directory with all directories in it."""
    for directory, _, _ in os.walk(folder):
        Path(directory).chmod(0o755)
    for directory, _, _ in [*os.walk(folder)]:
        Path(directory).chmod(mode)


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def lost(path: Path) -> Path:
    """A violated run: a loss, and a replica that was seen to hold the message: analysis/lost is read back."""
    history = History().sent(0, 0, 0).sent(0, 1, 1).stored(0, 0, 0)
    history.add(
        "replica_log", broker=1, topic="orders", partition=0, offset=1, leader_epoch=0, producer=0, seq=1
    )
    return history.led(1, 0, 0, [1, 2]).led(2, 1, 5, [2]).read_to_end().write(path).path


@pytest.mark.parametrize("judged_before", [pytest.param(False, marks=pytest.mark.long), True])
def test_read_only_sealed_folder_is_judged(
    tmp_path: Path, locked: list[Path], judged_before: bool, in_process: InSession
) -> None:
    """Findings on stdout, the verdict's own status, one sentence, and nothing changed."""
    folder = lost(tmp_path / "run")
    before = in_process("analyze", str(shutil.copytree(folder, tmp_path / "writable" / "run")), "--json")
    if judged_before:
        assert in_process("analyze", str(folder), "--json").status == before.status
    allow(folder, 0o555)
    locked.append(folder)
    there = names(folder)
    done = analyze(folder)
    assert done.returncode == before.status == 1, done.stderr
    assert json.loads(done.stdout) == json.loads(before.stdout)
    said = [line for line in done.stderr.splitlines() if line.startswith("kaput: ")]
    assert len(said) == 1
    assert said[0].startswith(
        f"kaput: {folder} cannot be written to (Permission denied): not kept: analysis/, "
    )
    assert "findings.json" in said[0] and "junit.xml" in said[0]
    assert names(folder) == there


def test_read_only_unsealed_folder_is_judged_in_a_copy(tmp_path: Path, locked: list[Path]) -> None:
    """Sealed and judged in a copy; the streams stay where they are."""
    folder = opened(tmp_path / "run")
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom kaput.evidence.recorder import Recorder\n"
        "sys.path[:0] = sys.argv[2:]\nfrom test_analyze_while_recording import send\n"
        "folder = Path(sys.argv[1])\n"
        "sends, log = Recorder(folder, 'sends', 'producer-0'), Recorder(folder, 'log', 'drain')\n"
        "send(sends, log, range(5))\nos._exit(9)"
    )
    paths = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
    subprocess.run([sys.executable, "-c", code, str(folder.path), *paths], check=False)
    there = names(folder.path)
    assert "evidence/sends/producer-0.arrows" in there
    allow(folder.path, 0o555)
    locked.append(folder.path)
    done = analyze(folder.path)
    assert done.returncode == 3, done.stderr
    assert json.loads(done.stdout)["totals"]["sent"] == 5
    assert (
        f"kaput: {folder.path} cannot be written to (Permission denied): not kept: all of analysis/"
        in done.stderr
    )
    assert names(folder.path) == there


def test_unwritable_findings_json_does_not_lose_other_results(tmp_path: Path, in_process: InSession) -> None:
    """findings.json that is a directory: the rest is kept."""
    folder = lost(tmp_path / "run")
    (folder / "findings.json").mkdir()
    done = in_process("analyze", str(folder), "--json")
    assert done.status == 1
    assert f"kaput: {folder} cannot be written to (Is a directory): not kept: findings.json\n" in done.stderr
    assert (folder / "junit.xml").exists() and (folder / "analysis" / "ledger").exists()


def test_full_disk_still_yields_a_verdict(tmp_path: Path) -> None:
    """A file system with no room left for any result: judged, and reported."""
    mount = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "sh", "-c"]
    folder = lost(tmp_path / "source")
    there = tmp_path / "small"
    there.mkdir()
    script = f"mount -t tmpfs -o size=200k,nr_inodes=60 tmpfs {there} && cp -r {folder} {there}/run && "
    if subprocess.run([*mount, f"{script} true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this system lets nobody mount a small file system")
    fill = f"cat /dev/zero > {there}/filler 2>/dev/null; exec {' '.join(KAPUT)} analyze {there}/run --json"
    done = subprocess.run(
        [*mount, script + f"({fill})"], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["verdict"] == "violated"
    assert "cannot be written to (No space left on device): not kept: " in done.stderr
