"""Standing clusters by name: found while their keeper lives, and only then."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kaput.cli.main import app
from kaput.errors import LabError, UsageError
from kaput.operate.homes import Card, call, find, home, standing
from kaput.processes.records import start_of


@pytest.fixture(autouse=True)
def _own_state(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # A socket's path may have 107 bytes, and pytest's directories are long.
    with tempfile.TemporaryDirectory(prefix="k-") as short:
        monkeypatch.setenv("XDG_STATE_HOME", short)
        yield


def card(name: str, pid: int | None = None, start: str | None = None) -> Card:
    """Of this very process unless told."""
    pid = pid or os.getpid()
    return Card(name, pid, start or start_of(pid) or "", "127.0.0.1:9092", "/nodes", "loopback", "4.3.1")


def test_a_cluster_is_found_by_its_name() -> None:
    """Once its keeper has written its card."""
    place = home("mine")
    place.make()
    assert standing() == []
    place.write(card("mine"))
    assert find("mine") == card("mine") and standing() == [card("mine")]
    assert place.path.stat().st_mode & 0o077 == 0  # its socket is the user's own


def test_an_unknown_cluster_gets_the_nearest_or_the_way_to_one() -> None:
    """What stands, or how to start one."""
    with pytest.raises(UsageError, match="no cluster lab stands; none does: kaput up"):
        find("lab")
    home("lab").make()
    home("lab").write(card("lab"))
    with pytest.raises(UsageError, match="did you mean lab"):
        find("lap")


def test_a_keeper_that_died_does_not_stand() -> None:
    """Nor does another process of the same id."""
    place = home("lab")
    place.make()
    place.write(card("lab", start="another start"))
    assert standing() == []
    with pytest.raises(UsageError, match="its keeper has died; kaput down tidies up"):
        find("lab")
    place.make()  # the name is free again
    assert place.card() is None


def test_a_name_is_taken_once() -> None:
    """The second one is told what to do."""
    home("lab").make()
    home("lab").write(card("lab"))
    with pytest.raises(UsageError, match="a cluster lab stands already"):
        home("lab").make()


def test_a_name_is_locked_by_one_process_at_a_time() -> None:
    """The second one gets the reason; afterwards not even the lock's file is left."""
    place = home("lab")
    with (
        place.locked(),
        pytest.raises(UsageError, match="lab is being started or taken down by another kaput"),
        home("lab").locked(),
    ):
        pass
    with place.locked(), home("other").locked():
        place.make()
        place.write(card("lab"))
        with pytest.raises(UsageError, match="a cluster lab stands already"), home("lab").locked():
            pass
    assert [path.name for path in place.path.parent.iterdir()] == ["lab"]


def test_the_lock_ends_with_a_holder_that_is_killed() -> None:
    """The kernel releases it: what it left is no obstacle."""
    holding = (
        "import sys; from kaput.operate.homes import home\n"
        "with home('lab').locked(): print(flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen([sys.executable, "-c", holding], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout is not None and holder.stdout.readline()
    with pytest.raises(UsageError, match="being started"), home("lab").locked():
        pass
    holder.kill()
    holder.communicate()
    with home("lab").locked():
        pass


def test_what_is_being_started_is_not_taken_down() -> None:
    """Its directory stays: it is removed under the lock alone."""
    place = home("lab")
    with place.locked():
        place.make()
        with pytest.raises(UsageError, match="being started"):
            app(["down"], standalone_mode=False)
        assert place.path.exists()
    with pytest.raises(UsageError, match="no cluster lab stands"):
        app(["down"], standalone_mode=False)
    assert not place.path.exists()  # of one that never came up


@pytest.mark.parametrize("ending", ["down", "another start"])
def test_reassignments_of_a_cluster_that_is_gone_are_forgotten(ending: str) -> None:
    """What there was to resume, to go back to, and to lock; those of other clusters stay."""
    place = home("lab")
    place.make()
    place.write(replace(card("lab", start="of a keeper that was killed"), cluster_id="abc"))
    folder = Path(os.environ["XDG_STATE_HOME"]) / "kaput/reassignments"
    folder.mkdir()
    for name in ("abc.json", "abc.lock", "abc-20260101T000000.json", "abcd.json", "xabc-2026.json"):
        (folder / name).write_text("{}")
    if ending == "down":
        app(["down"], standalone_mode=False)
    else:
        place.make()
    assert sorted(path.name for path in folder.iterdir()) == ["abcd.json", "xabc-2026.json"]


def test_logs_of_starts_that_nobody_waits_for_are_removed() -> None:
    """Those that somebody still waits for stay."""
    place = home("lab")
    place.make()
    ours = place.log_of_start()
    dead = ours.with_name("lab.4194304.log")
    for log in (ours, dead):
        log.write_text("...")
    place.remove()
    assert ours.exists() and not dead.exists()


@pytest.mark.parametrize("name", ["", "../up", "Lab", "a b", "x" * 40, "/tmp"])
def test_strange_names_are_refused(name: str) -> None:
    """They become names of directories."""
    with pytest.raises(UsageError, match="is no name of a cluster"):
        home(name)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"name": 1}'])
def test_a_card_that_is_broken_is_none(text: str) -> None:
    """Whoever wrote it."""
    place = home("lab")
    place.make()
    (place.path / "card.json").write_text(text)
    assert place.card() is None and standing() == []


@pytest.mark.parametrize(
    ("answer", "error", "said"),
    [
        ({"error": "no such fault", "usage": True}, UsageError, "no such fault"),
        ({"error": "did not bite", "usage": False}, LabError, "did not bite"),
        ({}, LabError, "hung up"),
    ],
)
def test_what_a_keeper_has_against_a_request_is_raised(
    answer: dict[str, object], error: type[Exception], said: str
) -> None:
    """With the exit status that it would have had here."""
    place = home("lab")
    place.make()
    place.write(card("lab"))
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(place.socket))
        server.listen()

        def serve() -> None:
            caller, _ = server.accept()
            with caller:
                assert caller.makefile("rb").readline() == b'{"do": "status"}\n'
                caller.sendall(json.dumps(answer).encode() + b"\n")

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(error, match=said):
            call(find("lab"), {"do": "status"})
        thread.join(10)


def test_a_keeper_that_does_not_listen_is_said() -> None:
    """In a sentence."""
    place = home("lab")
    place.make()
    place.write(card("lab"))
    with pytest.raises(LabError, match="the keeper of lab does not answer"):
        call(find("lab"), {"do": "status"})


@pytest.mark.parametrize("option", ["--name", "--cluster"])
@pytest.mark.parametrize("verb", [["down"], ["status"], ["fault", "list"], ["grow"], ["up"]])
def test_one_word_for_a_cluster_at_every_verb(verb: list[str], option: str) -> None:
    """What `kaput up` was given is what `kaput down` takes."""
    result = CliRunner().invoke(app, [*verb, option, "No Such"])
    assert isinstance(result.exception, UsageError) and "No Such" in str(result.exception)
