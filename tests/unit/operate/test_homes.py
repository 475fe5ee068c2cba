"""Standing clusters by name: found while their keeper lives, and only then."""

from __future__ import annotations

import json
import os
import socket
import tempfile
import threading
from collections.abc import Iterator

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
