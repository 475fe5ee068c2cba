"""What `kaput run` is to play, from names, tags and varied values; every mistake before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from kaput.cli.scenario_choice import choose
from kaput.errors import UsageError
from kaput.scenario.builtin import builtin_text

ACKS = "workload.producers.0.acks"


def test_every_scenario_runs_with_every_varied_combination() -> None:
    """In the order of the command line, with the settings that were varied."""
    names = ["leader-kill-acks-1", "leader-kill-acks-0"]
    found = choose(names, [], ["cluster.brokers=3"], [f"{ACKS}=0,1", "title=a,b"])
    assert [choice.title for choice in found[:3]] == [
        f"leader-kill-acks-1 {ACKS}=0 title=a",
        f"leader-kill-acks-1 {ACKS}=0 title=b",
        f"leader-kill-acks-1 {ACKS}=1 title=a",
    ]
    assert [choice.name for choice in found] == [names[0]] * 4 + [names[1]] * 4
    assert found[0].varied == {ACKS: 0, "title": "a"}
    assert [choice.scenario.producer_specs()[0].acks for choice in found[1:3]] == ["0", "1"] or [
        choice.scenario.producer_specs()[0].acks for choice in found[1:3]
    ] == [0, 1]


def test_tag_selects_every_scenario_with_it_once() -> None:
    """Once, also where a name or another tag names it too."""
    found = [choice.name for choice in choose(["noop"], ["control", "pause"], [], [])]
    assert found == ["noop", "leader-pause-acks-1", "leader-pause-acks-all"]


def test_all_errors_are_reported_at_once() -> None:
    """Names, tags, paths and values, each with its place."""
    with pytest.raises(UsageError) as raised:
        choose(["nope", "leader-kill-acks-1"], ["puase"], [], [f"{ACKS}=1,2,x", "topics.0.nme=a"])
    assert str(raised.value).splitlines() == [
        "--vary topics.0.nme=a: no such key: topics.0.nme; did you mean name?",
        "no scenario named nope; did you mean noop? (a file's name ends in .yaml)",
        "--tag puase: no scenario has this tag; did you mean pause?",
        f"--vary {ACKS}=2: '2' is not valid here; write 0, 1 or all",
        f"--vary {ACKS}=x: 'x' is not valid here; write 0, 1 or all",
    ]


def test_error_in_one_combination_names_its_values() -> None:
    """What is wrong with two values together."""
    idempotence = "workload.producers.0.idempotence"
    with pytest.raises(UsageError) as raised:
        choose(["leader-kill-acks-all"], [], [], [f"{ACKS}=1,all", f"{idempotence}=false,true"])
    assert str(raised.value).endswith(f"(with {ACKS}=1 {idempotence}=true)")
    assert len(str(raised.value).splitlines()) == 1


def test_scenario_file_is_read_only_once(tmp_path: Path) -> None:
    """What comes from a pipe is there only once."""
    import os
    import threading

    pipe = tmp_path / "piped.yaml"
    os.mkfifo(pipe)
    threading.Thread(target=pipe.write_text, args=(builtin_text("noop"),), daemon=True).start()
    found = choose([str(pipe)], [], [], ["title=a,b"])
    assert [choice.scenario.title for choice in found] == ["a", "b"]


def test_empty_selection_is_a_usage_error() -> None:
    """Neither a name nor a tag."""
    with pytest.raises(UsageError, match="name a scenario"):
        choose([], [], [], [])
