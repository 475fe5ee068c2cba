"""Fills a small file system and frees it again: `python filling.py FOLDER`, in a mount namespace of its own.

Started by test_disks.py; the assertions say what is expected.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from kaput.cluster.disk import mount
from kaput.errors import LabError
from kaput.faults.ballast import Ballast

SIZE = 4 << 20


def full_and_free_again(disk: Path) -> None:
    """All but what others have is taken; not one page fits; afterwards all of it is free."""
    others = disk / "segments"
    others.write_bytes(bytes(1 << 20))
    ballast = Ballast(disk, "kaput-ballast")
    assert ballast.size() == 0 and not ballast.refuses()
    ballast.delete()  # nothing is there yet
    taken = ballast.take()
    assert taken == ballast.size() == (disk / "kaput-ballast").stat().st_size
    assert SIZE - (1 << 20) - (64 << 10) <= taken <= SIZE - (1 << 20)
    assert ballast.refuses() and os.statvfs(disk).f_bavail == 0
    assert sorted(path.name for path in disk.iterdir()) == ["kaput-ballast", "segments"]
    others.unlink()
    assert not ballast.refuses() and ballast.size() == taken
    # Another one takes what came back, and the first may do so again.
    second = Ballast(disk, "second")
    assert second.take() == 1 << 20 and second.refuses() and ballast.refuses()
    second.delete()
    assert not ballast.refuses() and ballast.size() == taken
    ballast.delete()
    assert ballast.size() == 0 and list(disk.iterdir()) == []
    assert ballast.take() == taken + (1 << 20)
    ballast.delete()
    # Where one page is left, that one is taken.
    with others.open("wb") as filler:
        while os.statvfs(disk).f_bavail > 1:
            filler.write(bytes(os.statvfs(disk).f_bsize))
            filler.flush()
    assert ballast.take() == os.statvfs(disk).f_bsize and ballast.refuses()
    others.unlink()
    ballast.delete()


def said(action: object, words: str) -> None:
    """That the action raises LabError with these words."""
    try:
        action()  # type: ignore[operator]
    except LabError as error:
        assert words in str(error), str(error)
    else:
        raise AssertionError(f"nothing was said of: {words}")


def what_goes_wrong_is_said_with_its_place(disk: Path) -> None:
    """A directory that is not there is neither full nor free."""
    ballast = Ballast(disk / "nowhere", "kaput-ballast")
    for action, what in ((ballast.take, "filled"), (ballast.refuses, "tried")):
        said(action, f"the disk of {disk}/nowhere cannot be {what}: No such file or directory")
    assert ballast.size() == 0
    (disk / "file").write_bytes(b"")
    for action, what in (
        (Ballast(disk / "file", "x").size, "looked at"),
        (Ballast(disk, "").delete, "freed"),
    ):
        said(action, f"cannot be {what}: ")


def main(disk: Path) -> None:
    """Both, on one file system."""
    mount(disk, SIZE >> 20)
    full_and_free_again(disk)
    what_goes_wrong_is_said_with_its_place(disk)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
