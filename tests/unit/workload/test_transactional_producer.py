"""A sender of transactions without a broker: what it commits, aborts and gives up, and what it records."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import KafkaException
from producer_specs import producer_spec

from fakes.transactional_client import ABORT, FATAL, RETRIABLE, Client, trouble
from kaput.evidence.folder import RunFolder
from kaput.evidence.sealing import seal
from kaput.workload.counters import Counters
from kaput.workload.librdkafka import transactional_producer
from kaput.workload.librdkafka.transactional_producer import TransactionalSender

Made = Callable[..., tuple[TransactionalSender, Client]]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    """A sender of ten messages, four a transaction, and its client, whose calls may fail."""

    def make(
        share: str = "0%", process: int = 1, messages: int = 10, **fails: list[KafkaException | None]
    ) -> tuple[TransactionalSender, Client]:
        counters = tmp_path / "counters"
        Counters(counters, 1, create=True)
        client = Client(fails)
        config = {"bootstrap.servers": "127.0.0.1:1", "transactional.id": "t"}
        transactions = {"size": 4, "abort": share}
        more: dict[str, Any] = {"config": config, "process": process, "messages": messages}
        spec = producer_spec(tmp_path, transactions=transactions, **more)
        monkeypatch.setattr(transactional_producer, "Producer", lambda *_, **__: client)
        sender = TransactionalSender(spec)
        sender.client = client  # type: ignore[assignment]
        return sender, client

    return make


@pytest.fixture
def played(made: Made, tmp_path: Path) -> Callable[..., tuple[list[Any], list[str]]]:
    """Sends all of it; the rows of `transactions`, and what the client was asked."""

    def play(share: str = "0%", **fails: list[KafkaException | None]) -> tuple[list[Any], list[str]]:
        sender, client = made(share, **fails)
        sender.send_all()
        sender.finish()
        seal(RunFolder(tmp_path))
        (path,) = (tmp_path / "evidence" / "transactions").glob("*.parquet")
        return pq.read_table(path).to_pylist(), client.done

    return play


def told(rows: list[Any]) -> list[tuple[int, int, int, str]]:
    """Number, first and last message, and outcome of each."""
    return [(r["transaction"], r["first_seq"], r["last_seq"], r["outcome"]) for r in rows]


def test_every_message_belongs_to_a_transaction(played: Any) -> None:
    """Four at a time, and the rest in the last one."""
    rows, done = played()
    assert told(rows) == [(0, 0, 3, "committed"), (1, 4, 7, "committed"), (2, 8, 9, "committed")]
    whole = ["begin", *["send"] * 4, "commit"]
    assert done == [*whole, *whole, "begin", "send", "send", "commit"]
    assert all(r["producer"] == 0 and r["transactional_id"] == "t" and r["error"] is None for r in rows)
    assert all(r["begin_ns"] <= r["end_ns"] for r in rows)


def test_producer_that_comes_back_goes_on_with_its_next_transaction(made: Made, tmp_path: Path) -> None:
    """What was open when it was killed has an unknown outcome; numbers of transactions go on."""
    first, _ = made()
    first.send_all()
    assert first._record.begin_ns is not None  # the last two of ten messages
    first.recorder.close()
    first.attempts.close()
    first._record.close()
    again, client = made(process=2, messages=13)
    again._record.go_on(tmp_path, again.attempts.made)  # as connect does
    again.send_all()
    again.finish()
    assert client.done == ["begin", *["send"] * 3, "commit"]
    seal(RunFolder(tmp_path), killed=[0])
    files = sorted((tmp_path / "evidence" / "transactions").glob("*.parquet"))
    rows = [row for path in reversed(files) for row in pq.read_table(path).to_pylist()]
    assert told(rows) == [
        (0, 0, 3, "committed"), (1, 4, 7, "committed"), (2, 8, 9, "unknown"), (3, 10, 12, "committed"),
    ]  # fmt: skip
    assert rows[2]["end_ns"] is None and rows[1]["begin_ns"] < rows[2]["begin_ns"] < rows[3]["begin_ns"]
    assert [path.name for path in files] == ["producer-0.2.parquet", "producer-0.parquet"]


def test_outcomes_are_on_disk_before_a_sigkill(made: Made, tmp_path: Path) -> None:
    """Each is on the disk as soon as it is known."""
    sender, _ = made()
    sender.send_all()
    (path,) = (tmp_path / "evidence" / "transactions").glob("*.arrows")
    with path.open("rb") as file:
        assert told(pa.ipc.open_stream(file).read_all().to_pylist()) == [
            (0, 0, 3, "committed"), (1, 4, 7, "committed"),
        ]  # fmt: skip
    sender.finish()


def test_configured_share_is_aborted(played: Any) -> None:
    rows, done = played("50%")
    assert [r["outcome"] for r in rows] == ["committed", "aborted", "committed"]
    assert done.count("commit") == 2 and done.count("abort") == 1


def test_retriable_commit_error_is_retried(played: Any) -> None:
    """As long as the client says that it may help."""
    rows, done = played(commit=[trouble(**RETRIABLE), trouble(**RETRIABLE), None])
    assert [r["outcome"] for r in rows] == ["committed"] * 3
    assert done.count("commit") == 5


def test_abortable_commit_error_aborts_the_transaction(played: Any) -> None:
    """Where the client says so; why is recorded."""
    rows, _ = played(commit=[None, trouble(**ABORT)])
    assert [r["outcome"] for r in rows] == ["committed", "aborted", "committed"]
    assert rows[1]["error"] == "_TIMED_OUT: slow"


def test_rejected_message_aborts_its_transaction(played: Any) -> None:
    """Which ends there; the next message begins another one."""
    rows, done = played(send=[None, None, trouble()])
    assert told(rows) == [
        (0, 0, 2, "aborted"), (1, 3, 6, "committed"), (2, 7, 9, "committed"),
    ]  # fmt: skip
    assert done[:5] == ["begin", "send", "send", "send", "abort"]


def test_client_with_a_fatal_error_is_replaced(played: Any) -> None:
    """What its transaction came to is not known; the new client has the coordinator end it."""
    rows, done = played(commit=[None, trouble(**FATAL)])
    assert [r["outcome"] for r in rows] == ["committed", "unknown", "committed"]
    at = done.index("purge")
    assert done[at - 1 : at + 3] == ["commit", "purge", "init", "begin"]


def test_transaction_of_a_fenced_producer_is_aborted(played: Any) -> None:
    """As after a pause beyond the timeout; no commit was asked for, so the coordinator has aborted it."""
    rows, done = played(send=[trouble(**FATAL)], abort=[trouble(**FATAL)])
    assert told(rows)[0] == (0, 0, 0, "aborted")
    assert [r["outcome"] for r in rows[1:]] == ["committed"] * 3
    assert done.count("init") == 1


def test_fatal_error_raised_by_poll_is_handled(played: Any) -> None:
    """The client tells of a fatal error in the midst of its callbacks, once, and then at each call. No commit
    is asked for: the coordinator aborts the transaction.
    """
    rows, done = played(poll=[trouble(**FATAL), trouble(**FATAL)], abort=[trouble(**FATAL)])
    assert [r["outcome"] for r in rows] == ["aborted", "committed", "committed"]
    assert done.count("init") == 1 and "commit" not in done[: done.index("init")]


def test_transaction_that_is_open_at_the_end_has_an_unknown_outcome(made: Made, tmp_path: Path) -> None:
    """Of a producer that is told to stop, and of one whose client could not be replaced."""
    stopped, client = made(messages=2)
    stopped.counts[0] = stopped.send(0, 2)
    stopped.stopping.set()
    stopped.finish()
    assert client.done == ["begin", "send", "send"]
    broken, _ = made(process=2, abort=[trouble(**FATAL)], send=[trouble(**FATAL)], init=[trouble(**FATAL)])
    with pytest.raises(KafkaException):
        broken.send(0, 4)
    broken.finish()
    seal(RunFolder(tmp_path))
    rows = [
        row
        for path in (tmp_path / "evidence" / "transactions").glob("*.parquet")
        for row in pq.read_table(path).to_pylist()
    ]
    assert sorted((r["last_seq"], r["outcome"]) for r in rows) == [(0, "unknown"), (1, "unknown")]
