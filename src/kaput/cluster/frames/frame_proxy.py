"""The proxy in front of one broker, as the rest of kaput uses it: rules go in, reports about frames come out.

It is there from before the broker's start, since brokers advertise its ports. Not here: what it does
(proxy.py, a process of its own in the broker's network).
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple

from kaput.cluster.network.interface import Network
from kaput.cluster.properties import NodeLayout
from kaput.errors import LabError
from kaput.processes.ownership import OwnedProcess, Owner
from kaput.scenario.model import Cluster

What = Literal["observe", "delay", "drop-request", "drop-response", "disconnect", "error", "duplicate"]
_READY_S, _ANSWER_S = 15.0, 5.0


@dataclass(frozen=True)
class FrameRule:
    """Which requests a rule matches, and what is done to them.

    `from_`: listeners (clients, brokers) and addresses; None: everybody. `nth` goes before `share` (percent).
    `answers`: by version, the header's end and body of an error's answer, in hexadecimal.
    """

    id: str
    api: int
    what: What = "observe"
    from_: Sequence[str] | None = None
    nth: int | None = None
    share: float = 100.0
    delay_s: float = 0.0
    answers: dict[str, str] = field(default_factory=dict)
    seed: int = 0


class SeenFrame(NamedTuple):
    """A request that matched a rule; `acted`: the rule did something to it. `at_ns`: when it came."""

    at_ns: int
    acted: bool
    api_version: int
    correlation_id: int
    client_id: str | None
    connection: str


class Counts(NamedTuple):
    """Requests while a rule was in force: all of them, those that matched, those that were acted upon."""

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
    """Runs from `start` on, until its owner ends it. Safe to use from several threads."""

    def __init__(self, owner: Owner, network: Network, layout: NodeLayout) -> None:
        self._owner, self._network, self._layout = owner, network, layout
        self.title = f"proxy of broker {layout.id}"
        self._process: OwnedProcess | None = None
        self._listeners: dict[str, OnFrame] = {}  # by rule
        self._answers: dict[str, dict[str, Any]] = {}  # by rule, the proxy's last word about it
        self._changed = threading.Condition()
        self._ended = self._stopped = False

    def start(self) -> None:
        """Starts it; `wait_ready` tells when connections are taken. Raises LabError."""
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
        self._await("", "ready", _READY_S)

    @property
    def pid(self) -> int | None:
        """Its process; None before the start."""
        return None if self._process is None else self._process.pid

    @property
    def died(self) -> bool:
        """Whether it has ended though nobody ended it."""
        return self._ended and not self._stopped

    def put(self, rule: FrameRule, on_frame: OnFrame) -> None:
        """Returns when the rule is in force. `on_frame` is called from a thread, for each reported frame.

        Raises LabError.
        """
        self._listeners[rule.id] = on_frame
        spec = asdict(rule)
        self._tell({"rule": spec.pop("id"), "from": spec.pop("from_"), **spec})
        self._await(rule.id, "in_force", _ANSWER_S)

    def end(self, rule_id: str) -> Counts:
        """Ends a rule; its counts. What it delays is sent, where it dropped frames connections are closed.

        Raises LabError.
        """
        self._tell({"end": rule_id})
        told = self._await(rule_id, "ended", _ANSWER_S)
        return Counts(told["seen"], told["matched"], told["acted"])

    def stop(self) -> None:
        """Ends the process."""
        if self._process is not None and self._process.running:
            self._stopped = True
            self._process.kill()

    def _tell(self, what: dict[str, Any]) -> None:
        assert self._process is not None and self._process.popen.stdin is not None
        try:
            self._process.popen.stdin.write(json.dumps(what).encode() + b"\n")
            self._process.popen.stdin.flush()
        except OSError as error:
            raise LabError(f"the {self.title} cannot be asked: {error}") from None

    def _await(self, rule_id: str, word: str, limit_s: float) -> dict[str, Any]:
        with self._changed:
            heard = self._changed.wait_for(
                lambda: self._ended or word in self._answers.get(rule_id, ()), limit_s
            )
            if not heard or self._ended:
                how = "has ended" if self._ended else f"did not answer within {limit_s:.0f} s"
                raise LabError(f"the {self.title} {how}")
            return self._answers[rule_id]

    def _read(self, process: OwnedProcess) -> None:
        assert process.popen.stdout is not None
        for line in process.popen.stdout:
            said = json.loads(line)
            rule_id = said.pop("rule", "")
            if "at_ns" in said:
                self._listeners[rule_id](SeenFrame(**said))
                continue
            with self._changed:
                self._answers[rule_id] = said
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()
