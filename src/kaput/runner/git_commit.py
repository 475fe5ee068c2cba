"""Which commit of kaput this is, where it runs from a checkout. Read from .git: git may not be there."""

from __future__ import annotations

from pathlib import Path

import kaput


def commit(root: Path | None = None) -> str | None:
    """The commit (40 hex digits) that is checked out in `root`, by default where this package lies.

    None where that is no checkout, or one without a commit. Changes that are not committed are not seen.
    """
    root = root or Path(kaput.__file__).resolve().parents[2]
    try:
        git = _directory(root / ".git")
        head = (git / "HEAD").read_text().strip()
        return _resolved(git, head.removeprefix("ref: ")) if head.startswith("ref: ") else head or None
    except (OSError, ValueError):
        return None


def _directory(git: Path) -> Path:
    """The directory itself, or the one that a worktree's file names."""
    if git.is_dir():
        return git
    return git.parent / git.read_text().strip().removeprefix("gitdir: ")


def _resolved(git: Path, name: str) -> str | None:
    """The commit behind a reference, in a file of its own or among the packed ones."""
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
