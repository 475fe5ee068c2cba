"""What the process of a replay reports, which may be killed at any moment."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest

from kaput import keep
from kaput.clients.keep.store import now_ms
from kaput.workload.librdkafka.replay import ReportingStore
from kaput.workload.payload import Codec

RUN = uuid.UUID(int=9)


def kept(path: Path, count: int) -> keep.SQLite:
    """A store with messages of producer 3, and one of another program."""
    encode, store, now = Codec(RUN, 60).encoder(3), keep.SQLite(path), now_ms()
    records = [
        keep.KeptMessage(
            id=f"{n:04d}", topic="orders", partition=n % 2, value=encode(n, 1), timestamp_ms=now, kept_ms=now
        )
        for n in range(count)
    ]
    store.put([*records, records[0].model_copy(update={"id": "9999", "value": b"foreign"})])
    return store


def reported(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_batch_is_reported_after_its_removal_from_the_store(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not when it is read; messages of other programs are no part of the run."""
    store = ReportingStore(kept(tmp_path / "kept.db", 4), RUN)
    page = store.read("", 500)
    assert len(page) == 5 and reported(capsys) == []
    store.remove([], "batch:1")
    assert reported(capsys) == []
    store.remove([page[1].id, page[2].id, page[4].id], "batch:2")
    rows = [[3, 1, "orders", 1], [3, 2, "orders", 0]]
    assert reported(capsys) == [{"kind": "replayed", "rows": rows, "earlier": False}]
    assert sum(store.counts().values()) == 2


def test_messages_sent_by_an_earlier_replay_are_marked_earlier(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was killed after its commit: this one removes it without having read it; what is gone is nothing."""
    store = ReportingStore(kept(tmp_path / "kept.db", 3), RUN)
    store.remove(["0000", "0001", "0007"], "batch:1")
    rows = [[3, 0, "orders", 0], [3, 1, "orders", 1]]
    assert reported(capsys) == [{"kind": "replayed", "rows": rows, "earlier": True}]
