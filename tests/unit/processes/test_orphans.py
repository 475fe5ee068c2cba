"""No orphans: however a kaput-like parent ends, nothing that it started is left. All with real processes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kaput.processes.ending import reap_orphans
from kaput.processes.ownership import Owner
from kaput.processes.records import MARKER, ProcessRecord, StartedProcess, all_records, own_marker, start_of
from waiting import PATIENCE_S, eventually

PARENT = Path(__file__).parent / "parent.py"


class Parent:
    """A running parent: its process, its guardian's id, its descendants' ids."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        args = [sys.executable, str(PARENT), str(directory)]
        # A run of the tests under nohup would hand its deafness to SIGHUP on.
        self.popen = subprocess.Popen(
            args,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # noqa: PLW1509
        )
        assert self.popen.stdout is not None
        self.guardian, *self.children = (int(word) for word in self.popen.stdout.readline().split())

    def nothing_left(self) -> bool:
        """Whether every descendant, the directory and the record are gone."""
        running = [pid for pid in [self.guardian, *self.children] if start_of(pid) is not None]
        return not running and not self.directory.exists() and not all_records()


@pytest.fixture
def parent(tmp_path: Path) -> Parent:
    """A parent with five descendants, one of them stopped and one that ignores SIGTERM."""
    started = Parent(tmp_path / "data")
    assert len(started.children) == 5
    assert all(start_of(pid) is not None for pid in started.children)
    return started


def test_sigkill_of_the_parent_leaves_nothing(parent: Parent) -> None:
    """The guardian ends all children, the stopped, the stubborn and the grandchild, and removes the data."""
    parent.popen.kill()
    parent.popen.wait()
    assert eventually(parent.nothing_left)


def test_sigkill_of_guardian_and_parent_is_reaped_at_the_next_start(parent: Parent) -> None:
    """Where nobody was left to clean up, reap_orphans does, and says what ran."""
    os.kill(parent.guardian, signal.SIGKILL)
    parent.popen.kill()
    parent.popen.wait()
    # The stopped one is not among them: Linux hangs up what is stopped once its parent is gone.
    assert all(start_of(pid) is not None for pid in parent.children[1:])
    reaped = reap_orphans()
    assert {"sleeper-1", "sleeper-2", "stubborn"} <= set(reaped)
    assert eventually(parent.nothing_left)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_everything_and_exits_130(parent: Parent, number: int) -> None:
    """A signal, sent three times over by an impatient user, does not cut the cleaning up short."""
    for _ in range(3):
        parent.popen.send_signal(number)
    assert parent.popen.wait(PATIENCE_S) == 130
    assert eventually(parent.nothing_left)


def test_processes_of_a_live_owner_are_not_reaped(parent: Parent) -> None:
    """Another kaput that starts meanwhile reaps nothing of one that runs."""
    assert reap_orphans() == []
    assert all(start_of(pid) is not None for pid in parent.children)
    parent.popen.kill()
    parent.popen.wait()
    assert eventually(parent.nothing_left)


def test_a_process_id_used_again_is_not_touched(tmp_path: Path) -> None:
    """A dead owner's record that names a living process by id, but not by start, ends nothing."""
    innocent = subprocess.Popen(["sleep", "300"])
    try:
        record = ProcessRecord.create()
        dead = ProcessRecord(record.path.rename(record.path.with_name(f"{os.getpid()}-0-0")))
        dead.add_process(StartedProcess(innocent.pid, "another start", "innocent"))
        assert dead.owner_gone()
        assert reap_orphans() == []
        assert innocent.poll() is None
        assert all_records() == []
    finally:
        innocent.kill()
        innocent.wait()


def test_a_started_process_that_was_not_yet_recorded_is_found_by_its_marker(state: Path) -> None:
    """Between start and record there is a gap: the marker in the environment closes it."""
    record = ProcessRecord.create()
    dead = ProcessRecord(record.path.rename(record.path.with_name("1-0-0")))
    unrecorded = subprocess.Popen(["sleep", "300"], env={**os.environ, MARKER: dead.marker})
    try:
        assert reap_orphans() == ["sleep"]
        assert unrecorded.wait(PATIENCE_S) == -signal.SIGKILL
    finally:
        unrecorded.kill()
        unrecorded.wait()


def test_orphan_of_an_ended_child_is_reaped_at_the_next_start() -> None:
    """Also where owner and guardian were killed: the child that started it had ended long before."""
    leaving = (
        "import subprocess; "
        "print(subprocess.Popen(['sleep', '300'], start_new_session=True, stdout=subprocess.DEVNULL).pid)"
    )
    owning = (
        "import sys; from kaput.processes.ownership import Owner\n"
        "with Owner() as owner:\n"
        f"    child = owner.spawn([sys.executable, '-c', {leaving!r}], name='child', stdout=-1)\n"
        "    left = child.popen.stdout.readline().decode().strip(); child.wait(20)\n"
        "    print(owner._guardian.pid, left, flush=True); sys.stdin.read()\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", owning], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    guardian, left = (int(word) for word in parent.stdout.readline().split())
    os.kill(guardian, signal.SIGKILL)
    parent.kill()
    parent.communicate()
    assert start_of(left) is not None
    assert reap_orphans() == ["sleep"]
    assert eventually(lambda: start_of(left) is None)


def test_nested_owners_have_separate_records() -> None:
    """An inner owner that leaves takes nothing of the outer one along."""
    with Owner() as outer:
        kept = outer.spawn(["sleep", "300"], name="kept")
        with Owner() as inner:
            ended = inner.spawn(["sleep", "300"], name="ended")
            assert len(all_records()) == 2
        assert not ended.running
        assert kept.running
        assert all(record.marker == own_marker() for record in all_records())
    assert not kept.running
    assert all_records() == []


def test_process_that_survives_sigkill_stays_recorded(tmp_path: Path) -> None:
    """In the reaper and in an owner that leaves: the next start looks for it again; data goes anyway."""
    own = ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*own, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this system lets no process have a namespace of process ids")
    command = [*own, sys.executable, str(PARENT.with_name("immortal.py")), str(tmp_path / "data")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.stdout.splitlines() == ["True False", "['immortal', 'immortal']"], done.stderr
