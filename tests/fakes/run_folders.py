"""Run folders without a run: as much of each as a dashboard looks at, and a server over them."""

from __future__ import annotations

import http.client
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kaput.dashboard.app import Dashboard, server_of
from kaput.dashboard.opening import bind
from kaput.dashboard.safe_files import Runs
from kaput.dashboard.starter import Starter
from kaput.dashboard.watching.reader import RunReader
from kaput.evidence.attempts import AttemptWriter
from kaput.evidence.folder import Manifest, RunFolder, State
from kaput.evidence.recorder import Recorder
from kaput.search.summary import Searches
from waiting import eventually

SECOND = 1_000_000_000
STARTED = 1_700_000_000 * SECOND


def made(runs: Path, name: str, state: State = "sealed", scenario: str = "noop", **more: Any) -> RunFolder:
    """A folder with a manifest; `more`: further fields of that."""
    folder = RunFolder(runs / name)
    folder.path.mkdir(parents=True)
    fields = {"started_ns": STARTED, **more}
    folder.write_manifest(Manifest(run_id=uuid.uuid4(), scenario=scenario, state=state, **fields))
    return folder


def judged(
    runs: Path, name: str, verdict: str = "held", lost: int = 0, scenario: str = "noop", **more: Any
) -> RunFolder:
    """A folder with findings of which only the least is there."""
    folder = made(runs, name, "analysed", scenario, **more)
    anomalies = [{"name": "lost", "count": lost, "permitted": 0}, {"name": "duplicate", "count": 5}]
    findings = {"schema": "kaput.findings/1", "verdict": verdict, "anomalies": anomalies}
    folder.findings_path.write_text(json.dumps(findings))
    return folder


class Producer:
    """One producer of a run in progress, which writes with what the real one writes with."""

    def __init__(self, folder: RunFolder, number: int = 0, topic: str = "orders") -> None:
        self.recorder = Recorder(folder.path, "sends", f"producer-{number}")
        self.attempts = AttemptWriter(folder.path, number, topic)
        self._number, self._topic, self.seq = number, topic, 0

    def send(self, count: int, at_ns: int, latency_ms: float = 5, outcome: str = "acked") -> None:
        """So many attempts in a row, a microsecond apart, and what became of them."""
        for _ in range(count):
            attempt_ns = at_ns + self.seq % 1000 * 1000
            self.attempts.attempt(self.seq, attempt_ns)
            done_ns = attempt_ns + int(latency_ms * 1e6)
            self.recorder.row(
                self._number, self.seq, self._topic, 0, attempt_ns, done_ns, outcome, self.seq, None
            )
            self.seq += 1
        self.recorder.flush()

    def close(self) -> None:
        self.recorder.close()
        self.attempts.close()


KEY = "the-key-that-kaput-printed-behind-the-address"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    text: str


@dataclass(frozen=True)
class Site:
    """A dashboard that is served, on a port of its own."""

    port: int
    dashboard: Dashboard

    @property
    def url(self) -> str:
        """Its address, without a slash at the end."""
        return f"http://127.0.0.1:{self.port}"

    def ask(
        self,
        path: str,
        method: str = "GET",
        host: str | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> Answer:
        """Asks for exactly this path: nothing of it is put straight."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.putrequest(method, path, skip_host=True)
            connection.putheader("Host", host or f"127.0.0.1:{self.port}")
            for name, value in (headers or {}).items():
                connection.putheader(name, value)
            connection.endheaders(body or None)
            answer = connection.getresponse()
            named = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, named, answer.read().decode())
        finally:
            connection.close()

    def post(self, path: str, wanted: Any, method: str = "POST", **headers: str | None) -> Answer:
        """As a page asks for a change, with KEY; `headers` replace the page's own (None: without it)."""
        body = wanted if isinstance(wanted, bytes) else json.dumps(wanted).encode()
        given: dict[str, str | None] = {
            "Origin": self.url,
            "X-Kaput-Key": KEY,
            "Content-Type": "application/json",
            "Sec-Fetch-Site": "same-origin",
            "Content-Length": str(len(body)),
        }
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        sent = {name: value for name, value in given.items() if value is not None}
        return self.ask(path, method, headers=sent, body=body)

    @contextmanager
    def events(self, name: str, seen: str = "", of: str = "runs") -> Iterator[Iterator[tuple[str, str, Any]]]:
        """What a live page is sent, one after the other: (kind, id, data)."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", f"/{of}/{name}/events", headers={"Last-Event-ID": seen} if seen else {})
        try:
            yield _events(connection.getresponse())
        finally:
            connection.close()


def _events(answer: http.client.HTTPResponse) -> Iterator[tuple[str, str, Any]]:
    fields: dict[str, str] = {}
    while line := answer.readline():
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name:
            fields[name] = value
        elif fields:
            kind = fields.get("event", "message")
            if "data" in fields:
                data = json.loads(fields["data"]) if kind == "message" else fields["data"]
                yield kind, fields.get("id", ""), data
            fields = {}


@contextmanager
def served(
    runs: Path, key: str | None = None, starter: Starter | None = None, searches: Searches | None = None
) -> Iterator[Site]:
    """A dashboard over this folder, by the server that `kaput dashboard` has. `key`: changes clusters."""
    bound = bind(0)
    server = server_of(Runs(runs), bound, searches or Searches.of_runs(runs), key, starter)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    try:
        assert eventually(lambda: server.started)
        yield Site(bound.getsockname()[1], server.dashboard)
    finally:
        server.should_exit = True
        thread.join(30)
        bound.close()
    assert not thread.is_alive()


def looked_at(folder: RunFolder) -> dict[str, Any]:
    """What its live page would say of it at the moment, without the steps."""
    with closing(RunReader(Runs(folder.path.parent), folder.path.name)) as reader:
        return reader.look().head


def now_ns() -> int:
    """The clock that runs are recorded by."""
    return time.time_ns()


def nonreader(port: int, path: str) -> socket.socket:
    """A browser that asks and never reads, with as little room for an answer as the system lets it have."""
    asking = socket.socket()
    asking.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
    asking.connect(("127.0.0.1", port))
    asking.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
    return asking


def tree(path: Path) -> dict[str, tuple[int, bytes]]:
    """Everything below: when each file was written and what it holds."""
    found = {}
    for directory, _, files in os.walk(path):
        for name in files:
            file = Path(directory) / name
            found[str(file.relative_to(path))] = file.stat().st_mtime_ns, file.read_bytes()
    return found
