"""What every store of kaput.keep has to do; a test class for each of them inherits from it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kaput.clients.keep import KeptMessage, MessageStore
from kaput.clients.keep.store import now_ms, records_of


def record(number: int, topic: str = "orders", **more: object) -> KeptMessage:
    """A record with bytes that are no text, a key, headers with and without a value."""
    given = {
        "id": f"a-{number:06d}", "topic": topic, "key": b"k%d" % (number % 3),
        "value": b"\x00\xff\n%d" % number,
        "headers": (("a", b"\xfe"), ("b", None)), "timestamp_ms": 1_000 + number, "kept_ms": now_ms(),
        "partition": 1, "error": "Local: Message timed out", "tries": 2,
    }  # fmt: skip
    return KeptMessage(**{**given, **more})


class StoreContract:
    """`store` is empty for each test."""

    @pytest.fixture
    def store(self) -> Iterator[MessageStore]:
        """Each store has its own."""
        raise NotImplementedError

    def test_records_are_read_back_complete_and_in_order(self, store: MessageStore) -> None:
        """In pages, in whatever order they were put; empty values stay empty, missing ones missing."""
        records = [record(n) for n in range(1200)]
        records[7] = record(7, key=None, value=b"", headers=(), partition=None, error=None, in_doubt=True)
        store.put(records[600:])
        store.put(records[:600])
        assert list(records_of(store)) == records
        assert store.read("a-000599", 2) == records[600:602]
        assert store.counts() == {"orders": 1200}

    def test_put_of_an_existing_id_replaces_the_record(self, store: MessageStore) -> None:
        """Two tries of one write are one record."""
        store.put([record(1), record(2)])
        store.put([record(1, tries=3)])
        assert [(one.id, one.tries) for one in store.read()] == [("a-000001", 3), ("a-000002", 2)]

    def test_read_and_counts_are_per_topic(self, store: MessageStore) -> None:
        """In reading and in counting."""
        store.put([record(1), record(2, "payments"), record(3)])
        assert store.counts() == {"orders": 2, "payments": 1}
        assert [one.id for one in store.read(topic="orders")] == ["a-000001", "a-000003"]
        assert store.read(topic="nothing") == []

    def test_removed_records_are_not_read_again(self, store: MessageStore) -> None:
        """With its note; what is not there is no error."""
        store.put([record(n) for n in range(5)])
        store.note("batch", "x")
        store.remove(["a-000001", "a-000003", "unknown"], "batch")
        assert [one.id for one in store.read()] == ["a-000000", "a-000002", "a-000004"]
        assert store.notes() == {}
        store.remove([one.id for one in store.read()])
        assert store.counts() == {} and store.read() == []
        store.put([record(9)])
        assert [one.id for one in store.read()] == ["a-000009"]

    def test_first_note_of_a_name_wins(self, store: MessageStore) -> None:
        """Two processes that make one agree on it; notes survive an empty store."""
        assert store.note("identity", "first") == "first"
        assert store.note("identity", "second") == "first"
        store.put([record(1)])
        store.remove(["a-000001"])
        assert store.notes() == {"identity": "first"}
