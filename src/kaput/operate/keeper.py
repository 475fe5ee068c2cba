"""The keeper: holds a cluster that stays, and does what callers ask of it over a socket of its own.

One line of JSON each way, one call a connection. It lives until `down`, a signal, or its terminal's end; the
guardian of its owner ends the brokers should it be killed. Its place: cli/up.py makes one, others call it.
"""

from __future__ import annotations

import json
import os
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from kaput.errors import KaputError, LabError, UsageError
from kaput.operate.breaking import InjectedFault
from kaput.operate.homes import Card, Home
from kaput.operate.lab import Lab
from kaput.processes.records import start_of

_LONGEST_REQUEST = 1 << 20  # bytes


class Keeper:
    """Answers calls about one lab until it is told to end."""

    def __init__(self, home: Home, lab: Lab, kafka_home: Path | None = None) -> None:
        self.home, self.lab = home, lab
        self.card = Card(
            home.name,
            os.getpid(),
            start_of(os.getpid()) or "",
            lab.bootstrap_servers,
            str(home.folder),
            lab.spec.network,
            lab.spec.kafka,
            None if kafka_home is None else str(kafka_home.absolute()),
            None if lab.client_properties is None else str(lab.client_properties),
            lab.cluster_id(),
        )
        self._history: dict[str, dict[str, Any]] = {}
        self._timers: dict[str, threading.Timer] = {}
        self._lock = threading.Lock()
        self._down = threading.Event()
        self._verbs: dict[str, Callable[[dict[str, Any]], Any]] = {
            "status": self._status,
            "inject": self._inject,
            "heal": self._heal,
            "faults": self._faults,
            "grow": self._grow,
            "down": self._end,
        }

    def keep(self) -> None:
        """Returns when somebody has called `down`, or removed the home: then nobody could call any more."""
        while not self._down.wait(0.5) and self.home.socket.exists():
            pass

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Calls are answered in threads while the block runs; then the home is gone. Raises LabError."""
        keeper = self

        class Call(socketserver.StreamRequestHandler):
            """One request, one answer."""

            def handle(self) -> None:
                answer = keeper.answer(self.rfile.readline(_LONGEST_REQUEST))
                self.wfile.write(json.dumps(answer).encode() + b"\n")

        class Server(socketserver.ThreadingUnixStreamServer):
            """Threads that nobody waits for."""

            daemon_threads = True
            block_on_close = False

        try:
            server = Server(str(self.home.socket), Call)
        except OSError as error:
            where = "; set XDG_STATE_HOME to a shorter path" if "too long" in str(error) else ""
            raise LabError(f"{self.home.socket} cannot be listened at: {error}{where}") from None
        with server:
            threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
            self.home.write(self.card)
            try:
                yield
            finally:
                server.shutdown()
                for timer in self._timers.values():
                    timer.cancel()

    def answer(self, line: bytes) -> dict[str, Any]:
        """What a request is answered with; a mistake or a failure as `error`, never an exception."""
        try:
            request = json.loads(line)
            return {"said": self._verbs[request["do"]](request)}
        except KaputError as error:
            return {"error": str(error), "usage": isinstance(error, UsageError)}
        except (ValueError, KeyError, TypeError) as error:
            return {"error": f"not understood: {error!r}", "usage": True}

    def _status(self, request: dict[str, Any]) -> dict[str, Any]:
        return {**self.lab.status(), "cluster": self.home.name}

    def _inject(self, request: dict[str, Any]) -> dict[str, Any]:
        injected = self.lab.inject(request["fault"], request["target"], **request["options"])
        for_ms = request.get("for_ms")
        with self._lock:
            self._history[injected.id] = _entry(injected, for_ms)
        if for_ms is not None:
            timer = threading.Timer(for_ms / 1000, self._heal_in_time, (injected.id,))
            timer.daemon = True
            self._timers[injected.id] = timer
            timer.start()
        return self._history[injected.id]

    def _heal_in_time(self, name: str) -> None:
        try:
            self._heal({"fault": name})
        except KaputError as error:
            with self._lock:
                self._history[name].update(state="not proven", proof=str(error))

    def _heal(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        wanted = request.get("fault")
        names = [wanted] if wanted else [each.id for each in self.lab.active_faults]
        if not names:
            raise UsageError("nothing is broken: no fault is active")
        for name in names:
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
        return [self._history[name] for name in names]

    def _faults(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        with self._lock:
            return list(self._history.values())

    def _grow(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            self.lab.grow(int(request["brokers"]))
        finally:
            self.card = replace(self.card, bootstrap_servers=self.lab.bootstrap_servers)
            self.home.write(self.card)
        return {"bootstrap_servers": self.lab.bootstrap_servers, "brokers": self.lab.brokers}

    def _end(self, request: dict[str, Any]) -> dict[str, Any]:
        self._down.set()
        return {"down": self.home.name}


def _entry(injected: InjectedFault, for_ms: int | None) -> dict[str, Any]:
    return {**asdict(injected), "for_ms": for_ms, "healed_ns": None, "state": "active"}
