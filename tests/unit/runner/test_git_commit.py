"""The commit of a checkout, and of nothing else."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from kaput.runner.folder_setup import commit


def git(*words: object) -> str:
    identity = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.org")
    done = subprocess.run(["git", *identity, *map(str, words)], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.skipif(shutil.which("git") is None, reason="no git here")
def test_commit_of_a_checkout_and_of_its_worktree(tmp_path: Path) -> None:
    """Not of a folder within another checkout, as where a program has installed kaput."""
    main, side = tmp_path / "main", tmp_path / "side"
    git("init", "-q", main)
    assert commit(main) is None
    git("-C", main, "commit", "-q", "--allow-empty", "-m", "first")
    git("-C", main, "worktree", "add", "-q", "--detach", side)
    known = git("-C", main, "rev-parse", "HEAD")
    assert len(known) == 40 and [commit(main), commit(side)] == [known] * 2
    (main / "within").mkdir()
    assert commit(main / "within") is None


def test_no_commit_without_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".git").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit(tmp_path) is None
