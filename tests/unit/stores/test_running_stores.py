"""The stores of a run without brokers and servers: made, broken, listed, and removed."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.store_contract import record
from kaput import keep
from kaput.errors import LabError
from kaput.processes.ownership import Owner
from kaput.scenario.stores import Store
from kaput.stores.running import RunningStores, StoreServer, patiently


def test_store_files_exist_only_during_the_run(tmp_path: Path) -> None:
    """As their URLs say; what is kept can be listed as long as the run lasts."""
    stores = {"local": Store(kind="sqlite"), "log": Store(kind="failure-log")}
    with Owner() as owner:
        with RunningStores(owner, stores, tmp_path, lambda _: None) as running:
            for name, url in running.urls.items():
                assert str(tmp_path / "stores" / name) in url
                keep.open_store(url).put([record(1), record(2)])
                assert running.held(name) == 2 and [one.id for one in running.records(name)] == [
                    record(1).id, record(2).id,
                ]  # fmt: skip
        assert (tmp_path / "stores" / "local" / "kept.db").exists()
    assert not (tmp_path / "stores").exists()


def test_external_store_must_be_empty(tmp_path: Path) -> None:
    """Else a replay would send what it kept for another one."""
    theirs = keep.SQLite(tmp_path / "theirs.db")
    theirs.put([record(1)])
    stores = {"mine": Store(kind="mongodb", where=theirs.name)}
    with (
        Owner() as owner,
        pytest.raises(LabError, match="store mine holds 1 messages already"),
        RunningStores(owner, stores, tmp_path, lambda _: None),
    ):
        raise AssertionError


def test_server_that_is_slow_at_first_is_asked_again() -> None:
    """Its client's timeout is not the end, as long as the server may still be starting."""
    answers: Iterator[keep.StoreError | None]
    answers = iter([keep.StoreError("read timed out"), keep.StoreError("read timed out"), None])

    def ask() -> str:
        if (error := next(answers)) is not None:
            raise error
        return "there"

    assert patiently(ask, time.monotonic() + 60) == "there"
    answers = iter([keep.StoreError("read timed out")])
    with pytest.raises(keep.StoreError, match="timed out"):
        patiently(ask, 0)


def test_external_store_cannot_be_a_fault_target(tmp_path: Path) -> None:
    """Neither one of the user's own, nor one that there is not."""
    theirs = keep.SQLite(tmp_path / "theirs.db").name
    stores = {"mine": Store(kind="mongodb", where=theirs), "local": Store()}
    with Owner() as owner, RunningStores(owner, stores, tmp_path, lambda _: None) as running:
        for name in ("mine", "other"):
            with pytest.raises(LabError, match=f"there is no store {name}"):
                running.target(name)
        local = running.target("local")
        assert (local.title, local.running, local.pid) == ("store local", True, None)
        assert local.data == tmp_path / "stores" / "local" and not local.is_stopped()
        with pytest.raises(LabError, match="store local has no process"):
            local.kill()


class Sleeper(StoreServer):
    """A server that does nothing."""

    def __init__(self, owner: Owner, folder: Path) -> None:
        self.kind, self.folder, self.port = "mongodb", folder, 1
        self._owner, self._process, self._log = owner, None, folder / "output.log"
        self._env, self._command = {}, ["sleep", "1000"]

    def _answers(self) -> bool:
        return self.running


def test_a_server_can_be_killed_paused_and_started_again(tmp_path: Path) -> None:
    """With the times and the CPU time that proofs need."""
    from kaput.stores.running import StoreTarget

    with Owner() as owner:
        target = StoreTarget(1, "far", tmp_path, Sleeper(owner, tmp_path))
        target.start()
        first = target.pid
        assert first is not None and target.running and target.cpu_seconds() < 5
        target.pause()
        while not target.is_stopped():
            pass
        target.resume()
        assert target.kill() > 0 and not target.running
        with pytest.raises(ProcessLookupError):
            os.kill(first, 0)
        with pytest.raises(LabError, match="store far has ended"):
            target.cpu_seconds()
        target.start()
        assert target.running and target.pid != first
