"""A run in progress, watched through its folder while the recorder's own writers write."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from fakes.run_folders import SECOND, Producer, Site, judged, made, nonreader, now_ns, served
from kaput.dashboard.safe_files import Runs
from kaput.dashboard.watching import subscribers as events_module
from kaput.dashboard.watching.reader import EVERY_S, RunReader
from kaput.dashboard.watching.run_tails import CurrentState
from kaput.dashboard.watching.subscribers import MOST_WATCHERS, Subscribers
from kaput.evidence.folder import RunFolder
from kaput.evidence.recorder import Recorder
from kaput.evidence.recording import NAME, hold_alone, hold_to_record
from kaput.evidence.sealing import seal
from waiting import PATIENCE_S, eventually

NAME_OF_RUN = "run"


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """A run in progress that began just now."""
    return made(tmp_path, NAME_OF_RUN, "recording", "isolated", started_ns=now_ns(), phase="inject")


@pytest.fixture
def reader(folder: RunFolder) -> Iterator[RunReader]:
    made_here = RunReader(Runs(folder.path.parent), NAME_OF_RUN)
    yield made_here
    made_here.close()


@pytest.fixture
def site(folder: RunFolder) -> Iterator[Site]:
    with served(folder.path.parent) as found:
        yield found


def _update(folder: RunFolder, **changes: object) -> None:
    folder.write_manifest(folder.read_manifest().model_copy(update=changes))


def test_live_counts_rates_and_latency(folder: RunFolder, reader: RunReader) -> None:
    """Everything flushed is there, by its outcome."""
    producer = Producer(folder)
    began = folder.read_manifest().started_ns
    producer.send(1000, began + SECOND, latency_ms=5)
    producer.send(10, began + 2 * SECOND, latency_ms=90, outcome="failed")
    producer.send(3, began + 2 * SECOND, latency_ms=90, outcome="unknown")
    producer.send(4, began + 2 * SECOND, latency_ms=90, outcome="kept")
    producer.send(2, began + 2 * SECOND, latency_ms=90, outcome="refused")
    producer.attempts.attempt(producer.seq, began + 2 * SECOND)
    snapshot = reader.look()
    assert snapshot.head["counts"] == {
        "attempted": 1020, "acked": 1000, "failed": 10, "unknown": 3, "kept": 4, "refused": 2, "delivered": 0,
    }  # fmt: skip
    rows = {row.number: row for row in snapshot.steps.rows}
    assert (rows[1].sent, rows[1].acked, rows[2].failed, rows[2].sent) == (1000, 1000, 10, 20)
    assert rows[1].p50 == pytest.approx(5, rel=0.08)
    producer.send(500, began + 3 * SECOND)
    assert reader.look().head["rates"]["acked"] > 0
    producer.close()


def test_live_deliveries_lag_leaders_and_faults(folder: RunFolder, reader: RunReader) -> None:
    """What the small tables say right now: the last row counts."""
    began, path = folder.read_manifest().started_ns, folder.path
    with (
        Recorder(path, "deliveries", "m") as deliveries,
        Recorder(path, "samples", "lag") as samples,
        Recorder(path, "faults", "nemesis") as faults,
    ):
        deliveries.row("billing", "m1", "orders", 0, 0, 0, 0, True, began + 5)
        for lag in (70, 30):
            for partition in ("0", "1"):
                labels = [("group", "billing"), ("topic", "orders"), ("partition", partition)]
                samples.row(began, "kaput", "lag", labels, float(lag))
        for leader, epoch, isr in ((1, "4", "1,2"), (2, "5", "2")):
            labels = [("topic", "orders"), ("partition", "0"), ("leader_epoch", epoch), ("isr", isr)]
            samples.row(began, "kaput", "leader", labels, float(leader))
        fault = ("1-isolate", "isolate", "leader-of orders/0", [1], began + SECOND)
        faults.row(*fault, None, None, False, "injection not finished")
        for table in (deliveries, samples, faults):
            table.flush()
        head = reader.look().head
        assert head["groups"] == {"billing": 1} and head["lags"] == {"billing": 60}
        assert head["places"] == [{"place": "orders/0", "leader": 2, "epoch": 5, "isr": [2]}]
        assert [(f["state"], f["from_s"], f["to_s"]) for f in head["faults"]] == [
            ("being injected", 1.0, None)
        ]
        faults.row(*fault, began + 2 * SECOND, None, True, "cut")
        faults.flush()
        assert [(f["state"], f["from_s"]) for f in reader.look().head["faults"]] == [("active", 2.0)]
        faults.row(*fault, began + 2 * SECOND, began + 4 * SECOND, True, "cut, and healed")
        faults.flush()
        (told,) = reader.look().head["faults"]
        assert (told["state"], told["to_s"], told["proof"]) == ("healed", 4.0, "cut, and healed")


def test_seconds_count_from_the_begin_of_the_load(folder: RunFolder, reader: RunReader) -> None:
    """Which is later than that of the folder."""
    producer, began = Producer(folder), folder.read_manifest().started_ns
    producer.send(5, began + 10 * SECOND)
    assert reader.look().steps.rows[-1].number == 10
    _update(folder, started_ns=began + 10 * SECOND)
    snapshot = reader.look()
    assert [row.sent for row in snapshot.steps.rows] == [5]
    assert snapshot.head["counts"]["attempted"] == 5
    producer.close()


def test_a_run_is_followed_through_its_sealing_to_its_verdict(folder: RunFolder, reader: RunReader) -> None:
    """What was flushed last is counted although its file has gone."""
    producer, began = Producer(folder), folder.read_manifest().started_ns
    producer.send(5, began)
    assert reader.look().head["counts"]["acked"] == 5
    producer.send(2, began)
    producer.close()
    seal(folder)
    _update(folder, state="sealed")
    snapshot = reader.look()
    assert snapshot.head["counts"]["acked"] == 7 and snapshot.head["phase"] == "inject" and not snapshot.over
    document = _findings()
    folder.findings_path.write_text(json.dumps(document))
    snapshot = reader.look()
    assert snapshot.over and snapshot.head["state"] == "judged"
    assert snapshot.head["verdict"]["verdict"] == "held" and "23" in snapshot.head["verdict"]["message"]


def _findings() -> dict[str, Any]:
    from kaput.evidence.findings import Findings
    from kaput.scenario.anomalies import RUN_ANOMALIES

    zero = {"count": 0, "permitted": 0}
    lost = {"count": 23, "permitted": 23}
    document = {
        "run": {"id": "0", "scenario": "isolated", "seed": 7, "kafka": None, "mode": "kraft", "started_ns": 0,
                "ended_ns": None},
        "verdict": "held", "reasons": [], "fates": [], "groups": [], "faults": [], "unavailability": [],
        "totals": {"sent": 7, "acked": 7, "failed": 0, "unknown": 0, "log_records": 7, "stored_messages": 7},
        "anomalies": [{"name": n, **(lost if n == "lost" else zero)} for n in RUN_ANOMALIES],
        "high_watermark_arithmetic": {"acked": 7, "end_offsets": 7, "difference": 0},
        "latency_ms": {"ack": {}, "end_to_end": {}}, "rates": {"sent_per_s": 1, "acked_per_s": 1},
    }  # fmt: skip
    return json.loads(Findings.model_validate(document).to_json())


def test_watching_takes_no_lock_and_writes_nothing(folder: RunFolder, reader: RunReader) -> None:
    """Whoever seals gets the folder at once, while it is being watched."""
    producer = Producer(folder)
    producer.send(5, now_ns())
    producer.close()
    before = {str(path): path.stat().st_mtime_ns for path in folder.path.rglob("*")}
    reader.look()
    assert {str(path): path.stat().st_mtime_ns for path in folder.path.rglob("*")} == before
    with hold_alone(folder.path):
        reader.look()


def test_dead_recorder_is_reported(folder: RunFolder, reader: RunReader) -> None:
    """And what it had recorded is shown."""
    with hold_to_record(folder.path, "kaput run"):
        producer = Producer(folder)
        producer.send(5, now_ns())
        assert reader.look().head["recorder"] == {"dead": False, "message": ""}
        producer.close()
    free = max(psutil.pids()) + 100_000
    (folder.path / NAME).write_text(f"{free} {os.uname().nodename} 2026-01-01T00:00:00Z kaput run\n")
    head = reader.look().head
    assert head["recorder"]["dead"] and f"process {free}" in head["recorder"]["message"]
    assert head["counts"]["acked"] == 5


def test_symlinks_and_pipes_are_not_followed(folder: RunFolder, reader: RunReader, tmp_path: Path) -> None:
    """Also where a stream should be."""
    producer = Producer(folder)
    producer.send(5, now_ns())
    (folder.path / "evidence" / "sends" / "other.arrows").symlink_to(
        folder.path / "evidence" / "sends" / "producer-0.arrows"
    )
    os.mkfifo(folder.path / "evidence" / "sends" / "pipe.arrows")
    (folder.path / "evidence" / "deliveries").symlink_to(tmp_path)
    assert reader.look().head["counts"]["acked"] == 5
    producer.close()


def test_event_stream_sends_increments_several_times_a_second(folder: RunFolder, site: Site) -> None:
    """From the flush to the browser, again and again; each event has only what changed."""
    assert EVERY_S <= 0.25
    producer = Producer(folder)
    with site.events(NAME_OF_RUN) as events:
        _, _, first = next(events)
        assert first["whole"] and first["scenario"] == "isolated"
        for count in range(1, 6):
            producer.send(100, now_ns())
            snapshot = next(p for _, _, p in events if p["counts"]["acked"] == 100 * count)
            assert not snapshot["whole"] and len(snapshot["steps"]["rows"]) <= 3
    producer.close()


def test_reconnecting_client_gets_only_new_data(folder: RunFolder, site: Site) -> None:
    """By the id of the last event; one of another reader is worth nothing."""
    producer = Producer(folder)
    producer.send(5, now_ns())
    with site.events(NAME_OF_RUN) as events:
        _, last, _ = next(events)
    with site.events(NAME_OF_RUN, seen=last) as events:
        assert not next(events)[2]["whole"]
    with site.events(NAME_OF_RUN, seen="another-5") as events:
        assert next(events)[2]["whole"]
    producer.close()


def test_a_judged_run_ends_the_stream(tmp_path: Path) -> None:
    """A page need not ask again."""
    judged(tmp_path, "old").findings_path.write_text(json.dumps(_findings()))
    with served(tmp_path) as site, site.events("old") as events:
        assert next(events)[2]["verdict"]["verdict"] == "held"
        assert next(events)[::2] == ("end", "over")


def test_subscriber_stays_until_it_was_sent_the_verdict(tmp_path: Path) -> None:
    """That the reader has it is not enough."""
    judged(tmp_path, "old").findings_path.write_text(json.dumps(_findings()))

    async def watch() -> None:
        subscribers = Subscribers(partial(RunReader, Runs(tmp_path)))
        async with subscribers.watching("old") as feed:
            snapshot = await feed.after(0)
            assert snapshot is not None and snapshot.over
            while subscribers.feeds:
                await asyncio.sleep(0)
            assert subscribers.is_watched
        assert not subscribers.is_watched

    # In a thread: Playwright leaves its own loop running in that of the browser's tests.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, asyncio.wait_for(watch(), PATIENCE_S)).result()


def test_stalled_browsers_do_not_delay_others(
    folder: RunFolder, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reads is told as before; one reader serves all; memory stays; the others are let go."""
    monkeypatch.setattr(events_module, "STALLED_S", 3.0)
    producer = Producer(folder)
    for group in range(400):  # so that a snapshot fills what the system keeps for a connection
        with Recorder(folder.path, "samples", f"lag-{group}") as samples:
            labels = [("group", f"group-{group}-" + "x" * 200), ("topic", "t"), ("partition", "0")]
            samples.row(now_ns(), "kaput", "lag", labels, 1.0)
    with ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(nonreader(site.port, f"/runs/{NAME_OF_RUN}/events"))
        assert eventually(lambda: _watchers(site) == 100)
        memory = psutil.Process().memory_info().rss
        with site.events(NAME_OF_RUN) as events:
            seen = 0
            for count in range(1, 11):
                producer.send(10, now_ns())
                seen = next(p["counts"]["acked"] for _, _, p in events if p["counts"]["acked"] == 10 * count)
            assert seen == 100
            assert len(site.dashboard.subscribers.feeds) == 1
        assert psutil.Process().memory_info().rss - memory < 200 << 20
        assert eventually(lambda: _watchers(site) == 0)
    producer.close()


def _watchers(site: Site) -> int:
    return sum(feed.watchers for feed in site.dashboard.subscribers.feeds)


def test_stream_is_refused_with_503_beyond_the_watcher_limit(
    folder: RunFolder, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In place of a stream."""
    monkeypatch.setattr("kaput.dashboard.watching.subscribers.MOST_WATCHERS", 1)
    assert MOST_WATCHERS > 100
    with site.events(NAME_OF_RUN) as events:
        next(events)
        assert (answer := site.ask(f"/runs/{NAME_OF_RUN}/events")).status == 503
        assert "too many pages are open" in answer.text


def test_removed_run_folder_ends_only_its_own_streams(folder: RunFolder, site: Site) -> None:
    """With a sentence; the list goes on."""
    with site.events(NAME_OF_RUN) as events:
        next(events)
        folder.manifest_path.unlink()
        kind, _, said = next(event for event in events if event[0] == "end")
    assert kind == "end" and "can no longer be read" in said
    assert site.ask("/").status == 200


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e30, -1e30])
def test_invalid_sample_is_ignored(value: float) -> None:
    """What was known before stays."""
    small = CurrentState()
    labels = [("group", "billing"), ("topic", "orders"), ("partition", "0")]
    for each in (3.0, value):
        small.sample({"name": "lag", "labels": labels, "value": each, "at_ns": 1})
        small.sample({"name": "leader", "labels": labels, "value": each, "at_ns": 1})
        small.sample({"name": "messages_attempted", "labels": [], "value": each, "at_ns": 1})
    assert small.lags() == {"billing": 3}
    assert small.attempted == 3
    assert [place["leader"] for place in small.places()[0]] == [3]
