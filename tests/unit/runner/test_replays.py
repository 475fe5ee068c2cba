"""The replays of a run without Kafka: killed as often as asked for, recorded, and what is left is listed."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kaput import keep
from kaput.clients.keep.store import now_ms
from kaput.evidence.folder import RunFolder
from kaput.evidence.recorder import Recorder
from kaput.evidence.sealing import seal
from kaput.processes.ownership import Owner
from kaput.runner import replays
from kaput.runner.replays import record_missing_kept_rows
from kaput.scenario.stores import Replay, Store
from kaput.stores.running import RunningStores
from kaput.workload.client_spec import ReplaySpec
from kaput.workload.payload import Codec

RUN = uuid.UUID(int=9)
COUNT = 600


def message(producer: int, seq: int, **more: Any) -> keep.KeptMessage:
    """As a producer of the run leaves it."""
    value, now = Codec(RUN, 60).encode(producer, seq, 1), now_ms()
    return keep.KeptMessage(
        id=f"{producer}-{seq:06d}", topic="orders", value=value, timestamp_ms=now, kept_ms=now, **more
    )


@contextmanager
def a_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Owner, RunningStores]]:
    """With a store that keeps COUNT messages."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    (folder / "clients").mkdir()
    with Owner() as owner, RunningStores(owner, {"local": Store()}, folder, lambda _: None) as stores:
        keep.open_store(stores.urls["local"]).put([message(0, seq) for seq in range(COUNT)])
        yield owner, stores


def replayed(
    folder: Path, owner: Owner, stores: RunningStores, kills: int, module: str = "fakes.replaying"
) -> tuple[list[str], list[str]]:
    """Troubles, and what was said."""
    notes: list[str] = []
    spec = ReplaySpec(str(RUN), "", None, True, {})
    replay = Replay(kills=kills)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replays, "_MODULE", module)
        patch.setattr(replays, "_EARLY_S", 0.3)
        patch.setattr(replays, "_IN_BATCH_S", 0.03)
        return replays._Replays(owner, folder, stores, replay, spec, 1, notes.append).run(), notes


def rows(folder: Path, table: str) -> list[dict[str, Any]]:
    seal(RunFolder(folder))
    return [
        row
        for path in (folder / "evidence" / table).glob("*.parquet")
        for row in pq.read_table(path).to_pylist()
    ]


def test_replay_finishes_after_the_requested_kills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One proven fault for all kills; each message is reported once, but for those of a killed batch."""
    with a_run(tmp_path, monkeypatch) as (owner, stores):
        troubles, notes = replayed(tmp_path, owner, stores, kills=4)
        assert troubles == [] and stores.held("local") == 0
    sent, (fault,) = rows(tmp_path, "replayed"), rows(tmp_path, "faults")
    assert notes[0] == "replay of local: 600 messages kept" and "0 are left" in notes[-1]
    assert "twice" not in notes[-1]  # the last one does not know what the killed ones sent
    assert [note.split(",")[0] for note in notes[1:-1]] == [
        f"replay of local killed ({n} of 4)" for n in range(1, 5)
    ]
    assert (fault["id"], fault["fault"], fault["bit"]) == ("replay-of-local-kill", "kill", True)
    assert "4 of 4 times SIGKILL, process gone after" in fault["proof"]
    assert fault["injected_ns"] <= fault["effective_ns"] <= fault["healed_ns"]
    assert COUNT - 4 * 10 <= len({row["seq"] for row in sent}) == len(sent) <= COUNT
    assert max(row["replay"] for row in sent) == 5 and {row["store"] for row in sent} == {"local"}


def test_replay_that_ends_before_the_kill_is_not_confirmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here because there was nothing to send."""
    with a_run(tmp_path, monkeypatch) as (owner, stores):
        store = keep.open_store(stores.urls["local"])
        store.remove([message(0, seq).id for seq in range(COUNT)])
        troubles, notes = replayed(tmp_path, owner, stores, kills=2)
    assert troubles == [] and notes[-1].endswith("; at most 7 may be there twice")
    (fault,) = rows(tmp_path, "faults")
    assert not fault["bit"] and fault["effective_ns"] is None and "0 of 2 times SIGKILL" in fault["proof"]


def test_a_replay_that_fails_is_started_again_twice_and_then_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With how it ended; the store is listed all the same."""
    with a_run(tmp_path, monkeypatch) as (owner, stores):
        (trouble,), notes = replayed(tmp_path, owner, stores, kills=0, module="fakes.no_such_module")
        read, more = replays._list_stores(tmp_path, stores, {"local": Store()}, Codec(RUN))
    assert trouble.startswith("replay of local: replay-local-3 ended on its own (exit status 1)")
    assert len(notes) == 3 and notes[1].endswith("; started again") and more == []
    assert [(one.store, one.kind, one.read) for one in read] == [("local", "sqlite", True)]
    assert sorted(row["seq"] for row in rows(tmp_path, "left_in_store")) == list(range(COUNT))


def test_spooled_messages_of_a_killed_producer_are_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless it had recorded that itself; other producers have their own rows."""
    with a_run(tmp_path, monkeypatch) as (_, stores):
        store = keep.open_store(stores.urls["local"])
        store.put([message(1, 0), message(1, 1), message(1, 2, error="timed out", tries=2, in_doubt=True)])
        with Recorder(tmp_path, "kept", "producer-1") as own:
            own.row(1, 1, "local", "timed out", 1, True, 5)
        assert record_missing_kept_rows([], tmp_path, stores, Codec(RUN)) == []
        assert record_missing_kept_rows([1], tmp_path, stores, Codec(RUN)) == []
    found = {row["seq"]: row for row in rows(tmp_path, "kept")}
    assert {seq: (row["error"], row["tries"]) for seq, row in found.items()} == {
        0: (None, 0), 1: ("timed out", 1), 2: ("timed out", 2),
    }  # fmt: skip
    assert found[1]["at_ns"] == 5 and found[2]["in_doubt"] and found[0]["at_ns"] > 1e18
