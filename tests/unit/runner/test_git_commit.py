"""The commit of a checkout, as git lays it down in its different ways."""

from __future__ import annotations

from pathlib import Path

import pytest

from kaput.runner.folder_setup import commit

_COMMIT = "0123456789abcdef0123456789abcdef01234567"


def _git(path: Path, **files: str) -> Path:
    for name, text in files.items():
        file = path / name.replace("__", "/").replace("_", "-")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return path


def test_commit_of_loose_packed_and_detached_heads(tmp_path: Path) -> None:
    """HEAD names a branch, whose commit has a file or a line, or HEAD is the commit."""
    loose = _git(tmp_path / "a" / ".git", HEAD="ref: refs/heads/main\n", refs__heads__main=f"{_COMMIT}\n")
    packed = _git(tmp_path / "b" / ".git", HEAD="ref: refs/heads/main\n")
    _git(packed, packed_refs=f"# pack-refs with: peeled\n{_COMMIT} refs/heads/main\n")
    detached = _git(tmp_path / "c" / ".git", HEAD=f"{_COMMIT}\n")
    assert [commit(git.parent) for git in (loose, packed, detached)] == [_COMMIT] * 3


def test_commit_of_a_worktree(tmp_path: Path) -> None:
    """Its .git is a file; the branch is in the repository's."""
    main = _git(tmp_path / "main" / ".git", refs__heads__side=f"{_COMMIT}\n")
    _git(main / "worktrees" / "side", HEAD="ref: refs/heads/side\n", commondir="../..\n")
    (tmp_path / "side").mkdir()
    (tmp_path / "side" / ".git").write_text(f"gitdir: {main / 'worktrees' / 'side'}\n")
    assert commit(tmp_path / "side") == _COMMIT


@pytest.mark.parametrize("head", [None, "", "ref: refs/heads/none\n"])
def test_no_commit_without_a_valid_checkout(head: str | None, tmp_path: Path) -> None:
    """An installed package, a broken .git, a branch without a commit."""
    if head is not None:
        _git(tmp_path / ".git", HEAD=head)
    assert commit(tmp_path) is None
