"""kaput.keep's stores on real servers: the same contract as the embedded ones, and what a kill leaves.

KAPUT_TEST_MONGODB_URI=mongodb://HOST:PORT/DATABASE.COLLECTION runs those of MongoDB on a real one, whose
collection is emptied.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from fakes.store_contract import StoreContract, record
from kaput import keep
from kaput.clients.keep.store import records_of
from kaput.clients.keep.stores.search_engines import SearchEngine
from kaput.cluster.network.loopback import Ports
from kaput.java import find_java
from kaput.processes.ownership import Owner
from kaput.scenario.stores import ServerKind
from kaput.stores.running import GoNotFound, StoreServer
from waiting import PATIENCE_S, eventually

URI = os.environ.get("KAPUT_TEST_MONGODB_URI")


def serving(kind: ServerKind, folder: Path) -> Iterator[StoreServer]:
    """A server that is ready, and gone with everything it started at the end."""
    ports = Ports()
    try:
        with Owner() as owner:
            first, second = ports.reserve(2)
            try:
                server = StoreServer(owner, kind, folder, (first, second), find_java())
            except GoNotFound as missing:
                pytest.skip(str(missing))
            server.start()
            server.wait_ready()
            yield server
            family = server._processes()
        assert not psutil.wait_procs(family, PATIENCE_S)[1]
    finally:
        ports.close()


@pytest.fixture(scope="module")
def mongodb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreServer]:
    """FerretDB, built on first use."""
    yield from serving("mongodb", tmp_path_factory.mktemp("mongodb"))


@pytest.fixture(scope="module")
def elasticsearch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreServer]:
    yield from serving("elasticsearch", tmp_path_factory.mktemp("elasticsearch"))


@pytest.fixture(scope="module")
def opensearch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreServer]:
    yield from serving("opensearch", tmp_path_factory.mktemp("opensearch"))


class OnServer(StoreContract):
    """The contract, and what only a server can do."""

    @pytest.fixture
    def store(self, server: StoreServer) -> Iterator[keep.MessageStore]:
        """A collection or index of its own."""
        opened = keep.open_store(server.url(f"t{uuid.uuid4().hex[:8]}"))
        yield opened
        opened.close()

    @pytest.mark.long
    def test_server_killed_during_writes_loses_no_confirmed_record(self, server: StoreServer) -> None:
        """SIGKILL, and a restart: all that was confirmed is there; the rest failed with a StoreError."""
        url = server.url(f"k{uuid.uuid4().hex[:8]}")
        store, confirmed, errors = keep.open_store(url), [0], []

        def write() -> None:
            while not errors:
                try:
                    store.put([record(confirmed[0] + n) for n in range(5)])
                    confirmed[0] += 5
                except keep.StoreError as error:
                    errors.append(str(error))

        writer = threading.Thread(target=write)
        writer.start()
        assert eventually(lambda: confirmed[0] >= 100)
        server.kill()
        writer.join(PATIENCE_S)
        assert not server.running and len(errors) == 1 and errors[0].startswith(store.name)
        server.start()
        server.wait_ready()
        found = list(records_of(keep.open_store(url)))
        assert confirmed[0] <= len(found) <= confirmed[0] + 5
        assert found[: confirmed[0]] == [record(n, kept_ms=found[n].kept_ms) for n in range(confirmed[0])]


class OnSearchEngine(OnServer):
    """What an engine does with requests that come late."""

    def test_write_that_comes_after_the_removal_is_refused(self, store: SearchEngine) -> None:
        """As one that timed out and is carried out later; one with a clock ahead is removed all the same."""
        late = store._writes([record(1)])
        store.remove([record(1).id])  # there is none yet
        with pytest.raises(keep.StoreError, match="not written"):
            store._bulk(late)
        assert store.read() == []
        store.put([record(2)])
        store._bulk(store._writes([record(2)]))
        ahead = store._writes([record(3)])
        ahead[0]["index"]["version"] += 3_600_000_000
        store._bulk(ahead)
        store.remove([record(2).id, record(3).id])
        assert store.read() == []


@pytest.mark.long
class TestMongoDB(OnServer):
    """FerretDB, which has MongoDB's protocol and SQLite's files."""

    @pytest.fixture
    def server(self, mongodb: StoreServer) -> StoreServer:
        return mongodb


@pytest.mark.long
class TestElasticsearch(OnSearchEngine):
    """Its own client, its own server."""

    @pytest.fixture
    def server(self, elasticsearch: StoreServer) -> StoreServer:
        return elasticsearch


class TestOpenSearch(OnSearchEngine):
    """Its own client, its own server."""

    @pytest.fixture
    def server(self, opensearch: StoreServer) -> StoreServer:
        return opensearch


@pytest.mark.skipif(URI is None, reason="KAPUT_TEST_MONGODB_URI is not set")
class TestRealMongoDB(StoreContract):
    @pytest.fixture
    def store(self) -> Iterator[keep.MessageStore]:
        opened = keep.open_store(URI or "")
        opened.remove([one.id for one in records_of(opened)])
        for name in opened.notes():
            opened.remove([], name)
        yield opened
        opened.close()
