"""`kaput reassign` before it asks any cluster, and what it shows."""

from __future__ import annotations

import pytest

from fakes.program import app
from kaput.cli.options import confirmed
from kaput.cli.reassign import rate_of
from kaput.cli.reassign_text import render
from kaput.errors import UsageError
from kaput.operate.reassign.moves import Move


@pytest.mark.parametrize(
    ("text", "rate"),
    [("50MB", 50_000_000), ("800kB/s", 800_000), ("1.5G", 1_500_000_000), ("700", 700), ("none", None)],
)
def test_throttle_rate_is_parsed(text: str, rate: int | None) -> None:
    assert rate_of(text) == rate


@pytest.mark.parametrize("text", ["", "fast", "-1MB", "0", "50mb", "50 Mbit"])
def test_invalid_throttle_rate_is_rejected(text: str) -> None:
    with pytest.raises(UsageError, match="write bytes per second"):
        rate_of(text)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "choose topics"),
        (["--all-topics"], "nothing to do: give"),
        (["--all-topics", "--topic", "orders", "--balance"], "cannot be combined"),
        (["--resume", "--balance"], "cannot be combined with other choices"),
        (["--resume", "--rollback", "f"], "cannot be combined with other choices"),
    ],
)
def test_ambiguous_arguments_are_rejected(arguments: list[str], said: str) -> None:
    """Before anything is looked for."""
    with pytest.raises(UsageError, match=said):
        app(["reassign", *arguments, "--bootstrap-servers", "nowhere:1"], standalone_mode=False)


def test_confirmation_needs_a_terminal_or_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing is taken for a yes; --yes is one."""
    monkeypatch.setattr("sys.stdin", open("/dev/null"))  # noqa: PTH123, SIM115
    with pytest.raises(UsageError, match="add --yes"):
        confirmed("Apply this?", yes=False)
    assert confirmed("Apply this?", yes=True)


def test_few_moves_are_shown_one_by_one() -> None:
    """With what each broker has, leads and copies."""
    moves = [Move("orders", 0, (1,), (2, 1, 3), 2_000_000), Move("orders", 1, (1, 2), (2, 1), 5)]
    text = render(moves, {("orders", 0): (1,), ("orders", 1): (1, 2), ("bills", 0): (3,)}).plain
    assert "orders/0" in text and "2,1,3" in text and "4.0 MB" in text
    lines = [line.split() for line in text.splitlines()]
    assert ["1", "2", "2", "2", "0", "0", "bytes"] in lines
    assert ["2", "1", "2", "0", "2", "2.0", "MB"] in lines
    assert "2 partitions change, 2 replicas to copy, 1 only change their preferred leader: 4.0 MB" in text


def test_many_moves_are_shown_by_topic() -> None:
    moves = [Move(f"t{n // 20}", n % 20, (1,), (1, 2), 1000) for n in range(40)]
    text = render(moves, {move.topic_partition: move.before for move in moves}).plain
    assert [line.split()[:4] for line in text.splitlines()[1:3]] == [
        ["t0", "20", "1", "2"],
        ["t1", "20", "1", "2"],
    ]
    assert render([], {}).plain == "nothing to move\n"
