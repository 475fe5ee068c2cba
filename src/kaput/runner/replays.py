"""The replay of what stores kept: after the last heal, store by store, each in a process that may be killed.

A killed replay is restarted, as a user would do. Afterwards each store is listed, and the `kept` rows that
killed producers could not write are added. The evidence: `replayed`, `left_in_store`, and one row in `faults`
for the kills of each store's replay.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from kaput.clients.keep.store import StoreError
from kaput.core import MS
from kaput.errors import LabError
from kaput.evidence.folder import Manifest, RunFolder, StoreRead
from kaput.evidence.recorder import Recorder
from kaput.evidence.schemas import TABLES
from kaput.evidence.sealing import whole_batches
from kaput.processes.ownership import Owner
from kaput.runner.run_cluster import RunCluster
from kaput.scenario.model import Scenario
from kaput.scenario.stores import Replay, Store
from kaput.stores.running import RunningStores
from kaput.workload.client_spec import ReplaySpec
from kaput.workload.payload import Codec
from kaput.workload.supervision.client_process import ClientProcess, start_client

Kept = tuple[str, int, int]  # store, producer, seq


def record_missing_kept_rows(
    killed: Collection[int], folder: Path, stores: RunningStores, codec: Codec
) -> list[str]:
    """Writes the missing rows; returns sentences about stores that could not be read."""
    troubles: list[str] = []
    if not killed:
        return troubles
    known = {row for producer in killed for row in _recorded(folder, producer)}
    with Recorder(folder, "kept", "kaput") as rows:
        for name in stores.urls:
            try:
                for record in stores.records(name):
                    who = codec.decode(record.value).identity
                    if who and who.producer in killed and (name, who.producer, who.seq) not in known:
                        rows.row(
                            producer=who.producer, seq=who.seq, store=name, error=record.error,
                            tries=record.tries, in_doubt=record.in_doubt, at_ns=record.kept_ms * MS,
                        )  # fmt: skip
            except StoreError as error:
                troubles.append(f"store {name} could not be read before its replay: {error}")
    return troubles


def _recorded(folder: Path, producer: int) -> Iterator[Kept]:
    """The rows a producer wrote; the last ones may be torn."""
    path = folder / "evidence" / "kept" / f"producer-{producer}.arrows"
    if path.exists():
        for batch in whole_batches(TABLES["kept"], path, torn=[]):
            for store, seq in zip(batch["store"].to_pylist(), batch["seq"].to_pylist(), strict=True):
                yield store, producer, seq


_MODULE = "kaput.workload.librdkafka.replay"
_TRIES = 3  # of a replay that fails on its own
_PATIENCE_S = 180.0  # without any progress
_EARLY = 0.2  # the share of kills during startup, while the replay checks what an earlier one did
_EARLY_S = 2.0
_IN_BATCH_S = 0.1


def replay_and_list(
    owner: Owner,
    folder: RunFolder,
    manifest: Manifest,
    scenario: Scenario,
    cluster: RunCluster,
    stores: RunningStores,
    killed: Collection[int],
    note: Callable[[str], None],
) -> tuple[list[StoreRead], list[str]]:
    """Sends what the stores kept, if the scenario says so, then lists what they still hold. Returns which
    stores could be listed, and sentences about what went wrong. `killed`: producers that may not have
    recorded everything they kept.
    """
    replay, access, codec = scenario.replay, cluster.kafka.access(), Codec(manifest.run_id)
    troubles = record_missing_kept_rows(killed, folder.path, stores, codec)
    if replay is not None:
        spec = ReplaySpec(
            run_id=str(manifest.run_id),
            store="",
            rate=None if replay.rate == "max" else replay.rate,
            exactly_once=not replay.at_least_once,
            config={"bootstrap.servers": cluster.kafka.bootstrap_servers, "client.id": "kaput-replay"},
            access=None if access.path is None else str(access.path),
        )
        where = cluster.column
        troubles += _Replays(owner, folder.path, stores, replay, spec, manifest.seed, note, where).run()
    read, more = _list_stores(folder.path, stores, scenario.stores, codec, cluster.column)
    return read, troubles + more


class _Replays:
    """Replays the stores of one run. `spec` lacks only the store's URL; `cluster`: the destination."""

    def __init__(
        self,
        owner: Owner,
        folder: Path,
        stores: RunningStores,
        replay: Replay,
        spec: ReplaySpec,
        seed: int,
        note: Callable[[str], None],
        cluster: str | None = None,
    ) -> None:
        self._cluster = cluster
        self._owner, self._folder, self._stores, self._replay = owner, folder, stores, replay
        self._spec, self._seed, self._note = spec, seed, note

    def run(self) -> list[str]:
        """Sends everything; returns sentences about what went wrong."""
        troubles: list[str] = []
        with (
            Recorder(self._folder, "replayed", "kaput", self._cluster) as rows,
            Recorder(self._folder, "faults", "replays") as faults,
        ):
            for name, url in self._stores.urls.items():
                store = _StoreReplay(name, rows)
                try:
                    self._note(f"replay of {name}: {self._stores.held(name):,} messages kept")
                    self._replay_all_of(store, url, random.Random(f"{self._seed}/replay/{name}"))
                except LabError as error:
                    troubles.append(f"replay of {name}: {error}")
                if self._replay.kills:
                    store.record_kills(faults, self._replay.kills)
        return troubles

    def _replay_all_of(self, store: _StoreReplay, url: str, draw: random.Random) -> None:
        """Restarts killed and failed replays until one completes. Raises LabError."""
        failures = 0
        store.kept = self._stores.held(store.name)
        while True:
            client = self._start(store, url)
            left = self._replay.kills - len(store.kills) if store.kept else 0
            killed_ns = self._play(store, client, draw, left)
            if killed_ns is not None:
                self._note(
                    f"replay of {store.name} killed ({len(store.kills)} of {self._replay.kills}), "
                    f"{self._stores.held(store.name):,} messages are left"
                )
            elif client.has_reported("done"):
                self._note(store.sentence())
                return
            else:
                failures += 1
                if failures == _TRIES:
                    raise LabError(client.ended())
                self._note(f"{client.ended()}; started again")

    def _start(self, store: _StoreReplay, url: str) -> ClientProcess:
        store.starts += 1
        store.delivered = 0
        store.restarted()
        spec = ReplaySpec(**{**vars(self._spec), "store": url})
        name = f"replay-{store.name}-{store.starts}"
        return start_client(self._owner, self._folder / "clients", name, _MODULE, spec, store.on_message)

    def _play(
        self, store: _StoreReplay, client: ClientProcess, draw: random.Random, kills: int
    ) -> int | None:
        """When the process was killed (ns), if it was; returns at its end. Raises LabError."""
        early = draw.random() < _EARLY
        # Early enough that every kill leaves something to send.
        after = 0 if early else draw.randrange(1, max(2, store.left // (kills + 1)))
        share = draw.random()
        began = moved = time.monotonic()
        seen, due = 0, began + share * _EARLY_S if early else None
        while client.process.running:
            now = time.monotonic()
            if store.delivered > seen:
                if due is None and store.delivered >= after:
                    due = now + share * min(now - moved, _IN_BATCH_S)  # about as long as a batch takes
                seen, moved = store.delivered, now
            if kills and due is not None and now >= due:
                return store.kill(client)
            if now - moved > _PATIENCE_S:
                client.process.kill()
                raise LabError(f"no message was sent for {_PATIENCE_S:.0f} s")
            time.sleep(0.002)
        client.output_ended.wait(10)
        return None


class _StoreReplay:
    def __init__(self, name: str, rows: Recorder) -> None:
        self.name, self._rows = name, rows
        self.kept = self.starts = self.delivered = self._sent_total = 0
        self.kills: list[tuple[int, int, int]] = []  # (injected ns, ended ns, messages sent by then)
        self._restarted_ns = 0
        self._done: Mapping[str, Any] = {}

    @property
    def left(self) -> int:
        """How many messages are left to send, as far as known."""
        return max(0, self.kept - self._sent_total)

    def restarted(self) -> None:
        self._restarted_ns = time.time_ns()

    def kill(self, client: ClientProcess) -> int | None:
        """SIGKILLs the replay; returns when it ended (ns), None if it had already completed."""
        at_ns = time.time_ns()
        gone_ns = client.kill()
        client.output_ended.wait(10)
        if client.process.returncode == 0:
            return None
        self.kills.append((at_ns, gone_ns, self._sent_total))
        return gone_ns

    def on_message(self, message: Mapping[str, Any]) -> None:
        """Records a batch that Kafka has acknowledged, or keeps the replay's final report."""
        if message["kind"] == "replay":
            self._done = message
            return
        now, start = time.time_ns(), self.starts - message["earlier"]
        for producer, seq, topic, partition in message["rows"]:
            self._rows.row(
                store=self.name, producer=producer, seq=seq, topic=topic, partition=partition, replay=start,
                at_ns=now,
            )  # fmt: skip
        self._rows.flush()
        self.delivered += len(message["rows"])
        self._sent_total += len(message["rows"])

    def sentence(self) -> str:
        done = self._done
        text = f"replay of {self.name}: {self._sent_total:,} messages sent, {done['left']:,} are left"
        if done["maybe_twice"] and not self.kills:  # it does not know what killed ones sent
            text += f"; at most {done['maybe_twice']:,} may be there twice"
        rejected = [f"; {count:,} rejected: {why}" for why, count in done["rejected"].items()]
        return text + "".join(rejected)

    def record_kills(self, faults: Recorder, wanted: int) -> None:
        """Writes one row for all kills, with the proof."""
        first = self.kills[0] if self.kills else (time.time_ns(),) * 3
        took = ", ".join(f"{(gone - at) / MS:.1f} ms" for at, gone, _ in self.kills)
        proof = f"replay of {self.name}: {len(self.kills)} of {wanted} times SIGKILL"
        if self.kills:
            sent = ", ".join(f"{count:,}" for _, _, count in self.kills)
            proof += f", process gone after {took}; {sent} messages had been sent by then"
        healed_ns = self._restarted_ns if len(self.kills) == wanted else None
        faults.row(
            id=f"replay-of-{self.name}-kill", fault="kill", target=f"replay of store {self.name}", brokers=[],
            injected_ns=first[0], effective_ns=first[1] if self.kills else None, healed_ns=healed_ns,
            bit=len(self.kills) == wanted, proof=proof,
        )  # fmt: skip


def _list_stores(
    folder: Path, stores: RunningStores, kinds: Mapping[str, Store], codec: Codec, cluster: str | None = None
) -> tuple[list[StoreRead], list[str]]:
    """Records what each store holds; returns those listed, and sentences about the others."""
    read, troubles = [], []
    with Recorder(folder, "left_in_store", "kaput", cluster) as rows:
        for name in stores.urls:
            try:
                for record in stores.records(name):
                    identity = codec.decode(record.value).identity
                    if identity is not None:
                        rows.row(store=name, producer=identity.producer, seq=identity.seq)
                listed = True
            except StoreError as error:
                listed = False
                troubles.append(f"store {name} could not be listed: {error}")
            read.append(StoreRead(store=name, kind=kinds[name].kind, read=listed))
    return read, troubles
