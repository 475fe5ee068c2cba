"""Running clusters by name: found while their daemon is alive, and only then."""

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

from fakes.program import app
from kaput.errors import LabError, UsageError
from kaput.operate.registry import ClusterEntry, call, directory_of, find, running
from kaput.processes.records import start_of
from waiting import PATIENCE_S


@pytest.fixture(autouse=True)
def _own_state(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # A socket's path may have 107 bytes, and pytest's directories are long.
    with tempfile.TemporaryDirectory(prefix="k-") as short:
        monkeypatch.setenv("XDG_STATE_HOME", short)
        yield


def entry_for(name: str, pid: int | None = None, start: str | None = None) -> ClusterEntry:
    """With this process as its daemon, by default."""
    pid = pid or os.getpid()
    return ClusterEntry(
        name, pid, start or start_of(pid) or "", "127.0.0.1:9092", "/nodes", "loopback", "4.3.1"
    )


def test_a_cluster_is_found_by_its_name() -> None:
    """Once its daemon has written its entry."""
    place = directory_of("mine")
    place.create()
    assert running() == []
    place.write(entry_for("mine"))
    assert find("mine") == entry_for("mine") and running() == [entry_for("mine")]
    assert place.path.stat().st_mode & 0o077 == 0  # its socket is the user's own


def test_unknown_cluster_error_suggests_the_nearest_or_up() -> None:
    """The nearest running one, or how to start one."""
    with pytest.raises(UsageError, match="no cluster named 'lab' is running; kaput up"):
        find("lab")
    directory_of("lab").create()
    directory_of("lab").write(entry_for("lab"))
    with pytest.raises(UsageError, match="did you mean lab"):
        find("lap")


def test_a_cluster_whose_daemon_died_is_not_running() -> None:
    """Nor does another process of the same id."""
    place = directory_of("lab")
    place.create()
    place.write(entry_for("lab", start="another start"))
    assert running() == []
    with pytest.raises(UsageError, match="its daemon died; kaput down cleans up"):
        find("lab")
    place.create()  # the name is free again
    assert place.entry() is None


def test_a_name_is_taken_once() -> None:
    """The second one gets an error that names the ways out."""
    directory_of("lab").create()
    directory_of("lab").write(entry_for("lab"))
    with pytest.raises(UsageError, match="cluster lab is already running"):
        directory_of("lab").create()


def test_a_name_is_locked_by_one_process_at_a_time() -> None:
    """The second one gets the reason; afterwards not even the lock's file is left."""
    place = directory_of("lab")
    with (
        place.locked(),
        pytest.raises(UsageError, match="another kaput is starting or stopping cluster lab"),
        directory_of("lab").locked(),
    ):
        pass
    with place.locked(), directory_of("other").locked():
        place.create()
        place.write(entry_for("lab"))
        with pytest.raises(UsageError, match="cluster lab is already running"), directory_of("lab").locked():
            pass
    assert [path.name for path in place.path.parent.iterdir()] == ["lab"]


def test_the_lock_ends_with_a_holder_that_is_killed() -> None:
    """The kernel releases it: what it left is no obstacle."""
    holding = (
        "import sys; from kaput.operate.registry import directory_of\n"
        "with directory_of('lab').locked(): print(flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen([sys.executable, "-c", holding], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout is not None and holder.stdout.readline()
    with pytest.raises(UsageError, match="starting or stopping"), directory_of("lab").locked():
        pass
    holder.kill()
    holder.communicate()
    with directory_of("lab").locked():
        pass


def test_a_cluster_that_is_being_started_is_not_stopped() -> None:
    """Its directory stays: it is removed under the lock alone."""
    place = directory_of("lab")
    with place.locked():
        place.create()
        with pytest.raises(UsageError, match="starting or stopping"):
            app(["down"], standalone_mode=False)
        assert place.path.exists()
    with pytest.raises(UsageError, match="no cluster named 'lab' is running"):
        app(["down"], standalone_mode=False)
    assert not place.path.exists()  # of one that never came up


@pytest.mark.parametrize("ending", ["down", "another start"])
def test_reassignment_journals_of_a_removed_cluster_are_deleted(ending: str) -> None:
    """What there was to resume, to go back to, and to lock; those of other clusters stay."""
    place = directory_of("lab")
    place.create()
    place.write(replace(entry_for("lab", start="of a daemon that was killed"), cluster_id="abc"))
    folder = Path(os.environ["XDG_STATE_HOME"]) / "kaput/reassignments"
    folder.mkdir()
    for name in ("abc.json", "abc.lock", "abc-20260101T000000.json", "abcd.json", "xabc-2026.json"):
        (folder / name).write_text("{}")
    if ending == "down":
        app(["down"], standalone_mode=False)
    else:
        place.create()
    assert sorted(path.name for path in folder.iterdir()) == ["abcd.json", "xabc-2026.json"]


def test_logs_of_abandoned_starts_are_removed() -> None:
    """Those that somebody still waits for stay."""
    place = directory_of("lab")
    place.create()
    ours = place.log_of_start()
    dead = ours.with_name("lab.4194304.log")
    for log in (ours, dead):
        log.write_text("...")
    place.remove()
    assert ours.exists() and not dead.exists()


@pytest.mark.parametrize("name", ["", "../up", "Lab", "a b", "x" * 40, "/tmp"])
def test_strange_names_are_refused(name: str) -> None:
    """They become names of directories."""
    with pytest.raises(UsageError, match="is not a cluster name"):
        directory_of(name)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"name": 1}'])
def test_malformed_entry_is_ignored(text: str) -> None:
    place = directory_of("lab")
    place.create()
    (place.path / "cluster.json").write_text(text)
    assert place.entry() is None and running() == []


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        ({"error": "no such fault", "usage": True}, UsageError, "no such fault"),
        ({"error": "did not bite", "usage": False}, LabError, "did not bite"),
        ({}, LabError, "closed the connection"),
    ],
)
def test_the_daemons_errors_are_raised(
    answer: dict[str, object], error: type[Exception], message: str
) -> None:
    """With the exit status that it would have had here."""
    place = directory_of("lab")
    place.create()
    place.write(entry_for("lab"))
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
        with pytest.raises(error, match=message):
            call(find("lab"), {"do": "status"})
        thread.join(PATIENCE_S)


def test_unresponsive_daemon_is_a_lab_error() -> None:
    """Of the lab, in a sentence."""
    place = directory_of("lab")
    place.create()
    place.write(entry_for("lab"))
    with pytest.raises(LabError, match="the daemon of cluster lab does not answer"):
        call(find("lab"), {"do": "status"})


@pytest.mark.parametrize("verb", [["down"], ["status"], ["fault", "list"], ["grow"], ["up"]])
def test_cluster_option_works_for_every_command(verb: list[str]) -> None:
    """What `kaput up` was given is what `kaput down` takes."""
    result = CliRunner().invoke(app, [*verb, "--cluster", "No Such"])
    assert isinstance(result.exception, UsageError) and "No Such" in str(result.exception)
