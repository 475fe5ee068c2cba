"""The commit of kaput, if it runs from a checkout. Read from .git: git may not be installed."""

from __future__ import annotations

from pathlib import Path

import kaput


def commit(root: Path | None = None) -> str | None:
    """The commit (40 hex digits) that is checked out in `root`, by default the one with this package.

    None if that is not a checkout, or has no commit. Ignores uncommitted changes.
    """
    root = root or Path(kaput.__file__).resolve().parents[2]
    try:
        git = _directory(root / ".git")
        head = (git / "HEAD").read_text().strip()
        return _resolved(git, head.removeprefix("ref: ")) if head.startswith("ref: ") else head or None
    except (OSError, ValueError):
        return None


def _directory(git: Path) -> Path:
    """The .git directory, or the one that a worktree's .git file names."""
    if git.is_dir():
        return git
    return git.parent / git.read_text().strip().removeprefix("gitdir: ")


def _resolved(git: Path, name: str) -> str | None:
    """The commit of a reference, from its own file or packed-refs."""
    places = [git]
    if (git / "commondir").exists():
        places.append(git / (git / "commondir").read_text().strip())
    for place in places:
        if (place / name).is_file():
            return (place / name).read_text().strip()
    for place in places:
        packed = place / "packed-refs"
        for line in packed.read_text().splitlines() if packed.is_file() else ():
            if line.endswith(f" {name}"):
                return line.split(" ")[0]
    return None
