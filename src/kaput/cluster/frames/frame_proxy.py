"""The proxy in front of one broker, as the rest of kaput uses it: rules go in, reports about frames come out.

It starts before the broker, which advertises the proxy's ports. Not here: what the
proxy does (proxy.py, a separate process in the broker's network).
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from kaput.cluster.frames.error_answers import ErrorAnswer
from kaput.cluster.message_schemas import Schema, read_schemas
from kaput.cluster.network.interface import Network
from kaput.cluster.properties import NodeLayout
from kaput.errors import LabError
from kaput.processes.ownership import OwnedProcess, Owner
from kaput.scenario.model import Cluster

Action = Literal["observe", "delay", "drop-request", "drop-response", "disconnect", "error", "duplicate"]
_READY_S, _ANSWER_S = 60.0, 30.0  # only what hangs takes longer, also on a busy machine


@dataclass(frozen=True)
class FrameRule:
    """Which requests a rule matches, and what the proxy does to them. `from_`: listeners (clients, brokers)
    and addresses; None: all. `nth` has priority over `share` (percent). `error`: what requests are answered
    with.
    """

    id: str
    api: int
    what: Action = "observe"
    from_: Sequence[str] | None = None
    nth: int | None = None
    share: float = 100.0
    delay_s: float = 0.0
    error: ErrorAnswer | None = None
    seed: int = 0


class SeenFrame(NamedTuple):
    """A request that matched a rule; `acted`: whether the rule changed it; `at_ns`: when it arrived."""

    at_ns: int
    acted: bool
    api_version: int
    correlation_id: int
    client_id: str | None
    connection: str


class FrameCounts(NamedTuple):
    """Numbers of requests while a rule was in force: all, those that matched, those acted upon."""

    seen: int
    matched: int
    acted: int


OnFrame = Callable[[SeenFrame], None]


def proxied(spec: Cluster, layout: NodeLayout, free: Iterator[int]) -> dict[str, tuple[int, int]]:
    """By listener, the port of the proxy, taken from `free`, and the node's own port behind it."""
    own = {"clients": layout.broker_port}
    if spec.proxies == "everybody":
        own |= {"brokers": layout.internal_port, "controllers": layout.controller_port}
    wanted = own if spec.proxies != "none" else {}
    return {name: (next(free), port) for name, port in wanted.items() if port is not None}


class FrameProxy:
    """A proxy process, which runs from `start` until its owner ends it. Thread-safe. `jars`: of the node, one
    of which has the schemas of Kafka's messages, for errors.
    """

    def __init__(self, owner: Owner, network: Network, layout: NodeLayout, jars: Sequence[Path] = ()) -> None:
        self._owner, self._network, self._layout, self._jars = owner, network, layout, jars
        self.title = f"proxy of broker {layout.id}"
        self._process: OwnedProcess | None = None
        self._listeners: dict[str, OnFrame] = {}  # by rule
        self._answers: dict[str, dict[str, Any]] = {}  # the proxy's last answer about each rule
        self._changed = threading.Condition()
        self._ended = self._stopped = False

    def start(self) -> None:
        """Starts the process; `wait_ready` waits until it accepts connections. Raises LabError."""
        command = [sys.executable, "-P", "-m", "kaput.cluster.frames.proxy", "--host", self._layout.host]
        for name, (port, broker_port) in self._layout.proxied.items():
            command += ["--listener", f"{name}:{port}:{broker_port}"]
        self._process = self._owner.spawn(
            self._network.command(self._layout.id, command),
            name=self.title,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        threading.Thread(target=self._read, args=(self._process,), name=self.title, daemon=True).start()

    def wait_ready(self) -> None:
        """Raises LabError if it is not ready in time."""
        self._wait_for("", "ready", _READY_S)

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def died(self) -> bool:
        """Whether it ended without `stop`."""
        return self._ended and not self._stopped

    def put(self, rule: FrameRule, on_frame: OnFrame) -> None:
        """Puts a rule in force. `on_frame`: called from a thread for each reported frame. Raises LabError."""
        self._listeners[rule.id] = on_frame
        both: list[Schema] = []
        if rule.error is not None:
            api = rule.error.api
            both = read_schemas(self._jars, "message", [f"{api}Request", f"{api}Response"])
        spec = asdict(rule)
        self._send({"rule": spec.pop("id"), "from": spec.pop("from_"), **spec, "schemas": both})
        self._wait_for(rule.id, "in_force", _ANSWER_S)

    def end(self, rule_id: str) -> FrameCounts:
        """Ends a rule: sends delayed frames, closes connections with dropped ones. Raises LabError."""
        self._send({"end": rule_id})
        counts = self._wait_for(rule_id, "ended", _ANSWER_S)
        return FrameCounts(counts["seen"], counts["matched"], counts["acted"])

    def stop(self) -> None:
        if self._process is not None and self._process.running:
            self._stopped = True
            self._process.kill()

    def _send(self, what: dict[str, Any]) -> None:
        assert self._process is not None and self._process.popen.stdin is not None
        try:
            self._process.popen.stdin.write(json.dumps(what).encode() + b"\n")
            self._process.popen.stdin.flush()
        except OSError as error:
            raise LabError(f"the {self.title} cannot be asked: {error}") from None

    def _wait_for(self, rule_id: str, answer_field: str, timeout_s: float) -> dict[str, Any]:
        with self._changed:
            answered = self._changed.wait_for(
                lambda: self._ended or answer_field in self._answers.get(rule_id, ()), timeout_s
            )
            if not answered or self._ended:
                how = "has ended" if self._ended else f"did not answer within {timeout_s:.0f} s"
                raise LabError(f"the {self.title} {how}")
            return self._answers[rule_id]

    def _read(self, process: OwnedProcess) -> None:
        assert process.popen.stdout is not None
        for line in process.popen.stdout:
            message = json.loads(line)
            rule_id = message.pop("rule", "")
            if "at_ns" in message:
                self._listeners[rule_id](SeenFrame(**message))
                continue
            with self._changed:
                self._answers[rule_id] = message
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()
