"""Progress where stderr is no terminal: a line every few seconds, and the last one."""

from __future__ import annotations

import pytest

from kaput.cli.progress import CountProgress


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


def test_last_line_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever was skipped before it; once, if it is the only one."""
    with CountProgress("made", "generated {:,} of {:,}") as bar:
        for done in (1, 2, 3):
            bar.tell(done, 3)
    assert lines(capsys) == ["made: generated 1 of 3", "made: generated 3 of 3"]
    with CountProgress("made", "generated {:,} of {:,}") as bar:
        bar.tell(3, 3)
    assert lines(capsys) == ["made: generated 3 of 3"]


def test_last_line_is_not_shown_after_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    """It would come as if all were well."""
    with pytest.raises(ValueError), CountProgress("made", "{} of {}") as bar:
        bar.tell(1, 3)
        bar.tell(2, 3)
        raise ValueError
    assert lines(capsys) == ["made: 1 of 3"]


def test_what_takes_no_time_shows_no_line_where_the_first_comes_late(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with CountProgress("judging", "{} of {}", late=True) as bar:
        bar.tell(3, 3)
    assert lines(capsys) == []
