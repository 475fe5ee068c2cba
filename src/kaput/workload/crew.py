"""The crew: every client process of a run, started, told to go, listened to, and ended.

Its place: run/ owns a Crew; the processes themselves are producer.py and member.py.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from kaput.errors import LabError
from kaput.evidence.folder import RunFolder
from kaput.processes.ownership import OwnedProcess, Owner
from kaput.scenario.model import Config, Group, Producers, Scenario
from kaput.workload.counters import FIELDS, Counters
from kaput.workload.order import MemberOrder, ProducerOrder, file_name, write_order

READY_TIMEOUT_S = 60
_LAST_WORDS_S = 1.0
_RETRIES = ("retries", "message.send.max.retries")


@dataclass
class _Client:
    """A client process and what it has said so far."""

    name: str
    process: OwnedProcess
    stderr: Path
    said: dict[str, threading.Event] = field(
        default_factory=lambda: {kind: threading.Event() for kind in ("ready", "sent", "done")}
    )
    trouble: str | None = None


class Crew:
    """All producers and group members of one scenario. `on_threshold(n, at_ns)` is called from a thread."""

    def __init__(
        self,
        owner: Owner,
        scenario: Scenario,
        folder: RunFolder,
        run_id: uuid.UUID,
        bootstrap_servers: str,
        thresholds: list[int],
        on_threshold: Callable[[int, int], None],
    ) -> None:
        self._owner, self._scenario, self._folder, self._run_id = owner, scenario, folder, run_id
        self._bootstrap = bootstrap_servers
        self._thresholds, self._on_threshold = thresholds, on_threshold
        self._scratch = folder.path / "clients"
        self._scratch.mkdir(exist_ok=True)
        self._specs = scenario.producer_specs()
        self._counters_path = self._scratch / "counters"
        self._counters = Counters(self._counters_path, len(self._specs), create=True)
        self.producers: list[_Client] = []
        self.members: list[_Client] = []

    def start(self) -> None:
        """Starts every client and waits until all are ready. Raises LabError."""
        for group in self._scenario.workload.groups:
            for number in range(1, group.members + 1):
                self.members.append(self._start_member(group, f"member-{number}"))
        for number, spec in enumerate(self._specs):
            self.producers.append(self._start_producer(number, spec))
        limit = time.monotonic() + READY_TIMEOUT_S
        for client in self.producers + self.members:
            self._await(client, "ready", limit)

    def go(self) -> int:
        """Lets every producer start; the moment, in ns. Raises LabError when one has ended meanwhile."""
        now = time.time_ns()
        for client in self.producers:
            stdin = client.process.popen.stdin
            assert stdin is not None
            try:
                stdin.write(b"go\n")
                stdin.flush()
            except BrokenPipeError:
                with suppress(OSError):
                    stdin.close()  # what it holds would be tried again at the end of the program
                client.process.wait(_LAST_WORDS_S)
                raise LabError(self._ended(client)) from None
        return now

    def count(self, name: str) -> int:
        """The live sum of one counter: attempted, acked, failed or unknown."""
        return self._counters.total(FIELDS.index(name))

    def all_said(self, kind: str) -> bool:
        """Whether every producer has said `sent` or `done`. Raises LabError when one ended without."""
        for client in self.producers:
            self._check(client, kind)
        return all(client.said[kind].is_set() for client in self.producers)

    def troubles(self) -> list[str]:
        """Sentences about members that ended on their own."""
        return [
            self._ended(client)
            for client in self.members
            if not client.process.running and not client.said["done"].is_set()
        ]

    def stop_members(self, timeout_s: float = 30) -> None:
        """Members leave their groups in good order; a member that does not is ended with the owner."""
        for client in self.members:
            client.process.signal(signal.SIGTERM)
        limit = time.monotonic() + timeout_s
        for client in self.members:
            # One that has died will not say it any more.
            while client.process.running and time.monotonic() < limit:
                if client.said["done"].wait(0.1):
                    break

    def tidy(self) -> None:
        """Removes the live counters and empty error files; the orders stay, they hold the settings."""
        self._counters_path.unlink(missing_ok=True)
        for client in self.producers + self.members:
            if client.stderr.stat().st_size == 0:
                client.stderr.unlink()

    def _start_producer(self, number: int, spec: Producers) -> _Client:
        topic = self._scenario.topic(spec.topic)
        assert topic is not None
        order = ProducerOrder(
            folder=str(self._folder.path),
            run_id=str(self._run_id),
            producer=number,
            topic=spec.topic,
            partitions=topic.partitions,
            messages=spec.messages,
            duration_ms=spec.duration,
            rate=0.0 if spec.rate == "max" else spec.rate,
            payload_bytes=spec.payload_bytes,
            key=spec.key,
            round_robin=spec.partitioner == "round-robin",
            retries_disabled=any(str(spec.config.get(name)) == "0" for name in _RETRIES),
            config=producer_config(self._bootstrap, number, spec),
            counters=str(self._counters_path),
            producers=len(self._specs),
            thresholds=self._thresholds,
        )
        return self._spawn(f"producer-{number}", "kaput.workload.producer", order)

    def _start_member(self, group: Group, member: str) -> _Client:
        order = MemberOrder(
            folder=str(self._folder.path),
            run_id=str(self._run_id),
            group=group.id,
            member=member,
            topics=list(group.topics),
            config=member_config(self._bootstrap, group, member),
        )
        return self._spawn(f"{group.id}-{member}", "kaput.workload.member", order)

    def _spawn(self, name: str, module: str, order: ProducerOrder | MemberOrder) -> _Client:
        path = self._scratch / f"{file_name(name)}.json"
        write_order(path, order)
        stderr = path.with_name(f"{file_name(name)}.err")
        with stderr.open("wb") as errors:
            process = self._owner.spawn(
                [sys.executable, "-m", module, str(path)],
                name=name,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        client = _Client(name, process, stderr)
        threading.Thread(target=self._listen, args=(client,), name=f"listen-{name}", daemon=True).start()
        return client

    def _listen(self, client: _Client) -> None:
        assert client.process.popen.stdout is not None
        for line in client.process.popen.stdout:
            try:
                said = json.loads(line)
            except ValueError:
                continue  # the half line of a killed client
            if said["kind"] == "threshold":
                self._on_threshold(said["n"], said["at_ns"])
            elif said["kind"] == "trouble":
                client.trouble = said["message"]
            else:
                client.said[said["kind"]].set()

    def _await(self, client: _Client, kind: str, limit: float) -> None:
        while not client.said[kind].wait(0.1):
            self._check(client, kind)
            if time.monotonic() > limit:
                raise LabError(f"{client.name} was not {kind} within {READY_TIMEOUT_S} s")

    def _check(self, client: _Client, kind: str) -> None:
        # The pipe is read by another thread: an ended client may have said it a moment before.
        if not client.process.running and not client.said[kind].wait(_LAST_WORDS_S):
            raise LabError(self._ended(client))

    def _ended(self, client: _Client) -> str:
        lines = client.stderr.read_text(errors="replace").strip().splitlines()[-5:]
        why = client.trouble or "\n".join(lines) or "it said nothing"
        return f"{client.name} ended on its own ({_how(client.process.returncode)}): {why}"


def _how(status: int | None) -> str:
    """An exit status in words."""
    if status is not None and status < 0:
        return f"killed by {signal.Signals(-status).name}"
    return f"exit status {status}"


def producer_config(bootstrap_servers: str, number: int, spec: Producers) -> Config:
    """librdkafka's settings of one producer: the scenario's own go through as they are."""
    config: Config = {
        "bootstrap.servers": bootstrap_servers,
        "client.id": f"kaput-producer-{number}",
        "acks": spec.acks,
        "enable.idempotence": spec.idempotence,
    }
    if spec.partitioner != "round-robin":
        config["partitioner"] = spec.partitioner
    return {**config, **spec.config}


def member_config(bootstrap_servers: str, group: Group, member: str) -> Config:
    """librdkafka's settings of one member: reads from the start, and kaput commits, unless told otherwise."""
    config: Config = {
        "bootstrap.servers": bootstrap_servers,
        "client.id": f"kaput-{group.id}-{member}",
        "group.id": group.id,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        # By default the client stops fetching for a whole second when its queue is full for a moment.
        "fetch.queue.backoff.ms": 10,
    }
    return {**config, **group.config}
