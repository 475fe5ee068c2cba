"""The daemon of a running cluster: owns the cluster, and serves the CLI's requests over a socket.

One line of JSON each way, one request per connection. It runs until `down`, a signal, or the end of its
terminal; if it is killed, its guardian process ends the brokers. Its place: cli/up.py starts one, other verbs
call it.
"""

from __future__ import annotations

import json
import os
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from kaput.errors import KaputError, LabError, UsageError
from kaput.faults.catalogue import possible_on
from kaput.operate.observer import Observer
from kaput.operate.registry import ClusterDirectory, ClusterEntry
from kaput.operate.standing_cluster import StandingCluster
from kaput.processes.records import start_of

_REQUEST_BYTES_MAX = 1 << 20  # bytes


class Daemon:
    """Serves requests about one lab until `down`."""

    def __init__(
        self, directory: ClusterDirectory, lab: StandingCluster, kafka_home: Path | None = None
    ) -> None:
        self.directory, self.lab = directory, lab
        self.entry = ClusterEntry(
            directory.name,
            os.getpid(),
            start_of(os.getpid()) or "",
            lab.bootstrap_servers,
            str(directory.folder),
            lab.spec.network,
            lab.spec.kafka,
            None if kafka_home is None else str(kafka_home.absolute()),
            None if lab.client_properties is None else str(lab.client_properties),
            lab.cluster_id(),
        )
        self._observer = Observer(lab, lab.fault_history)
        self._down = threading.Event()
        named = {"cluster": directory.name}
        self._requests: dict[str, Callable[[dict[str, Any]], Any]] = {
            "status": lambda _: {**lab.status(), **named},
            "observe": lambda _: {**self._observer.document(), **named},
            "kinds": lambda _: [each._asdict() for each in possible_on(lab.spec)],
            "inject": self._inject,
            "heal": self._heal,
            "faults": lambda _: lab.fault_history(),
            "grow": self._grow,
            "down": self._end,
        }

    def wait_until_down(self) -> None:
        """Returns after `down`, or if the directory was removed: then no request can arrive any more."""
        while not self._down.wait(0.5) and self.directory.socket.exists():
            pass

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Serves requests in threads while the block runs. Raises LabError."""
        daemon = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                answer = daemon.answer(self.rfile.readline(_REQUEST_BYTES_MAX))
                self.wfile.write(json.dumps(answer).encode() + b"\n")

        class Server(socketserver.ThreadingUnixStreamServer):
            """Does not wait for its threads on exit."""

            daemon_threads = True
            block_on_close = False

        try:
            server = Server(str(self.directory.socket), Handler)
        except OSError as error:
            where = "; set XDG_STATE_HOME to a shorter path" if "too long" in str(error) else ""
            raise LabError(f"cannot listen on {self.directory.socket}: {error}{where}") from None
        with server:
            threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
            self.directory.write(self.entry)
            try:
                yield
            finally:
                server.shutdown()
                self._observer.close()

    def answer(self, line: bytes) -> dict[str, Any]:
        """The answer to a request: `result`, or `error` for a wrong request or a failure. Never raises."""
        try:
            request = json.loads(line)
            return {"result": self._requests[request["do"]](request)}
        except KaputError as error:
            return {"error": str(error), "usage": isinstance(error, UsageError)}
        except (ValueError, KeyError, TypeError) as error:
            return {"error": f"invalid request: {error!r}", "usage": True}

    def _inject(self, request: dict[str, Any]) -> dict[str, Any]:
        injected = self.lab.inject_for(
            request.get("for_ms"), request["fault"], request["target"], **request["options"]
        )
        return self._entry(injected.id)

    def _heal(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        wanted = request.get("fault")
        healed = [self.lab.heal(wanted)] if wanted else self.lab.heal_all()
        return [self._entry(each.id) for each in healed]

    def _entry(self, fault: str) -> dict[str, Any]:
        return next(each for each in self.lab.fault_history() if each["id"] == fault)

    def _grow(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            self.lab.grow(int(request["brokers"]))
        finally:
            self.entry = replace(self.entry, bootstrap_servers=self.lab.bootstrap_servers)
            self.directory.write(self.entry)
        return {"bootstrap_servers": self.lab.bootstrap_servers, "brokers": self.lab.brokers}

    def _end(self, request: dict[str, Any]) -> dict[str, Any]:
        self._down.set()
        return {"down": self.directory.name}
