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
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from kaput.errors import KaputError, LabError, UsageError
from kaput.faults.descriptions import possible_on
from kaput.operate.fault_injection import InjectedFault
from kaput.operate.lab import Lab
from kaput.operate.observer import Observer
from kaput.operate.registry import ClusterDirectory, ClusterEntry
from kaput.processes.records import start_of

_REQUEST_BYTES_MAX = 1 << 20  # bytes


class Daemon:
    """Serves requests about one lab until `down`."""

    def __init__(self, directory: ClusterDirectory, lab: Lab, kafka_home: Path | None = None) -> None:
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
        self._history: dict[str, dict[str, Any]] = {}
        self._timers: dict[str, threading.Timer] = {}
        self._lock = threading.Lock()
        self._observer = Observer(lab, lambda: self._faults({}))
        self._down = threading.Event()
        self._requests: dict[str, Callable[[dict[str, Any]], Any]] = {
            "status": self._status,
            "observe": self._observe,
            "kinds": self._kinds,
            "inject": self._inject,
            "heal": self._heal,
            "faults": self._faults,
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
            """One request."""

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
                for timer in self._timers.values():
                    timer.cancel()
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

    def _status(self, request: dict[str, Any]) -> dict[str, Any]:
        return {**self.lab.status(), "cluster": self.directory.name}

    def _observe(self, request: dict[str, Any]) -> dict[str, Any]:
        return {**self._observer.document(), "cluster": self.directory.name}

    def _kinds(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        """The faults that can be injected into this cluster's nodes."""
        return [each._asdict() for each in possible_on(self.lab.spec)]

    def _inject(self, request: dict[str, Any]) -> dict[str, Any]:
        injected = self.lab.inject(request["fault"], request["target"], **request["options"])
        for_ms = request.get("for_ms")
        with self._lock:
            self._history[injected.id] = _entry(injected, for_ms)
        if for_ms is not None:
            timer = threading.Timer(for_ms / 1000, self._heal_when_due, (injected.id,))
            timer.daemon = True
            self._timers[injected.id] = timer
            timer.start()
        return self._history[injected.id]

    def _heal_when_due(self, name: str) -> None:
        # An unconfirmed heal is in the history; a UsageError means that a request has healed it meanwhile.
        with suppress(KaputError):
            self._heal_one(name)

    def _heal(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        if wanted := request.get("fault"):
            self._heal_one(wanted)
            return [self._history[wanted]]
        return self._heal_all()

    def _heal_all(self) -> list[dict[str, Any]]:
        """Heals every active fault, also those after one whose heal is not confirmed. Raises LabError that
        names each of these.
        """
        names = [each.id for each in self.lab.active_faults]
        if not names:
            raise UsageError("no fault is active")
        unconfirmed: dict[str, str] = {}
        for name in names:
            try:
                self._heal_one(name)
            except LabError as error:
                unconfirmed[name] = str(error)
            except UsageError:
                pass  # its time was over in this moment: its timer has healed it
        if unconfirmed:
            healed = ", ".join(name for name in names if name not in unconfirmed) or "none"
            what = "; ".join(f"{name}: {error}" for name, error in unconfirmed.items())
            raise LabError(f"{len(unconfirmed)} of {len(names)} faults: {what} (healed: {healed})")
        return [self._history[name] for name in names]

    def _heal_one(self, name: str) -> None:
        """Heals a fault and records how that went. Raises UsageError if it is not active, LabError if its
        end is not confirmed.
        """
        if timer := self._timers.pop(name, None):
            timer.cancel()
        try:
            healed = self.lab.heal(name)
        except LabError as error:
            with self._lock:
                self._history[name].update(state="not proven", healed_ns=time.time_ns(), proof=str(error))
            raise
        with self._lock:
            self._history[name].update(state="healed", healed_ns=healed.healed_ns, proof=healed.proof)

    def _faults(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        with self._lock:
            return list(self._history.values())

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


def _entry(injected: InjectedFault, for_ms: int | None) -> dict[str, Any]:
    return {**asdict(injected), "for_ms": for_ms, "healed_ns": None, "state": "active"}
