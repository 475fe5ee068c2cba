"""The command line as a whole: mistakes end with what to do, --quiet and --verbose."""

from __future__ import annotations

import sys

import pytest

from fakes.called import called


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("heal", "no verb 'heal' (did you mean kaput fault heal?); see kaput --help"),
        ("stats", "no verb 'stats' (did you mean kaput status?); see kaput --help"),
        ("up --brokrs 3", "No such option: --brokrs (did you mean --brokers); see kaput up --help"),
        ("run --nmae x", "No such option: --nmae; see kaput run --help"),
        ("peek", "Missing argument 'TOPIC/PARTITION'; see kaput peek --help"),
        ("help nonsense", "no verb 'nonsense'; see kaput --help"),
    ],
)
def test_a_mistake_ends_with_what_to_do(
    words: str, sentence: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line, and no word is proposed that is only faintly alike."""
    done = called(words.split(), monkeypatch, capsys)
    assert (done.status, done.stdout, done.stderr) == (2, "", f"kaput: {sentence}\n")


@pytest.mark.parametrize("words", ["-q run nothing-like-it", "run nothing-like-it --quiet"])
def test_errors_are_printed_when_quiet(
    words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And stderr is back afterwards."""
    before = sys.stderr
    done = called(words.split(), monkeypatch, capsys)
    assert done.stderr.startswith("kaput: no scenario named nothing-like-it") and sys.stderr is before


def test_quiet_drops_notes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A search for its folder's name would print one."""
    from kaput.cli.verbs import Verbosity

    Verbosity.quieten()
    sys.stderr.write("a note\n")
    Verbosity.reset()
    assert capsys.readouterr().err == ""


def test_verbose_errors_have_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Above the sentence; without --verbose there is none."""
    assert "Traceback" in called(["run", "zzz", "-v"], monkeypatch, capsys).stderr
    assert "Traceback" not in called(["run", "zzz"], monkeypatch, capsys).stderr
