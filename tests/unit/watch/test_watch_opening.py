"""A watch that is resumed writes no file that an earlier session of it has written."""

from __future__ import annotations

from pathlib import Path

import pytest

from kaput.evidence.folder import RunFolder
from kaput.watch.watching import next_numbers


@pytest.mark.parametrize(
    ("files", "numbers"),
    [
        ([], (0, 1, 0)),
        (["cluster_events/watch-0.arrows", "samples/leaders-0.arrows"], (0, 1, 1)),  # killed at its start
        (["sends/producer-0.attempts", "sends/producer-2-unresolved.arrows"], (3, 1, 0)),
        (["group_events/c-reader-m1.arrows", "deliveries/c-reader-m12.arrows"], (0, 13, 0)),
        (["cluster_events/watch-9.arrows", "samples/leaders-36.parquet"], (0, 1, 37)),
    ],
)  # fmt: skip
def test_resumed_watch_uses_new_file_numbers(
    tmp_path: Path, files: list[str], numbers: tuple[int, int, int]
) -> None:
    """Whatever a session that was killed had come to write."""
    for file in files:
        path = tmp_path / "evidence" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert next_numbers(RunFolder(tmp_path)) == numbers
