"""protocol: requests of one kind (`api`) to the target are delayed, dropped, duplicated or get an error.

`what` says which: `delay`, `drop-request`, `drop-response`, `disconnect` (instead of delivery), `error`,
`duplicate`. Whatever follows a delayed or dropped frame on its connection is delayed or dropped with it,
since neither TCP nor Kafka could deliver it alone.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial

from kaput.cluster.frames.error_answers import ErrorAnswer
from kaput.cluster.frames.frame_proxy import FrameCounts, FrameProxy, FrameRule, SeenFrame
from kaput.cluster.node import Node
from kaput.core import MS
from kaput.errors import LabError
from kaput.faults.fault import NOT_RUNNING, Effect, NodeFault, Scene, name_all, now_ns
from kaput.faults.rules import addresses, named
from kaput.scenario.apis import API_KEYS, ERROR_CODES, ERRORS_OF
from kaput.scenario.fault_kinds import ProtocolOptions
from kaput.scenario.values import format_duration

ACTIONS = {
    "delay": "delayed",
    "drop-request": "dropped",
    "drop-response": "left without a response",
    "disconnect": "disconnected",
    "error": "answered with an error",
    "duplicate": "sent twice",
}  # by the option `what`: the action recorded for a frame


class Protocol(NodeFault):
    """Proof: how many requests were seen, matched and acted upon, at least one; each is in `frames`."""

    name = "protocol"
    options: ProtocolOptions

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._api = self.options.api or ""
        self._proxies: dict[str, FrameProxy] = {}  # by broker, where the rule is active
        self._injected_ns = 0
        self._all_ran = False
        self._first: SeenFrame | None = None  # the first frame that was acted upon
        self._lock = threading.Lock()

    def inject_into(self, alive: Sequence[Node], nodes: Sequence[Node]) -> Effect:
        self._all_ran, self._injected_ns = len(alive) == len(nodes), now_ns()
        for node in alive:
            if node.proxy is None:
                raise LabError(f"{node.title} has no proxy; write cluster.proxies: clients")
            self._proxies[node.title] = node.proxy
            node.proxy.put(self._rule(node.id), partial(self._on_frame, node.id))
        self.watching = True
        return Effect(None, False, f"{name_all(alive)}: {self._requests_text()} watched")

    def heal(self, nodes: Sequence[Node], effect: Effect) -> tuple[int | None, Effect]:
        if not self._proxies:
            return (now_ns() if effect.proof == NOT_RUNNING else None), effect
        counts = {broker: proxy.end(self.scene.step.id) for broker, proxy in self._proxies.items()}
        healed = now_ns()
        self.scene.frames.flush()
        proof = "; ".join(
            [effect.proof, *(f"{who}: {self._counts_text(each)}" for who, each in counts.items())]
        )
        if self._first is None:
            return healed, Effect(None, False, f"{proof}; nothing was done to any of them")
        return healed, Effect(
            self._first.at_ns, self._all_ran, f"{proof}; {self._first_frame_text(self._first)}"
        )

    def _rule(self, broker: int) -> FrameRule:
        options = self.options
        return FrameRule(
            self.scene.step.id,
            API_KEYS[self._api],
            options.what,
            self._senders(),
            options.nth,
            100.0 if options.share is None else options.share,
            (options.delay or 0) / 1000,
            self._error(),
            seed=broker,
        )

    def _error(self) -> ErrorAnswer | None:
        name = self.options.error
        if name is None:
            return None
        return ErrorAnswer(self._api, ERROR_CODES[name], name in ERRORS_OF[self._api].whole)

    def _senders(self) -> list[str] | None:
        """Listeners and addresses; None for everybody."""
        words = self.options.parties
        if "everybody" in words:
            return None
        senders = []
        for word in words:
            if word == "clients":
                senders.append(word)
            elif word in ("brokers", "all-nodes"):
                senders += ["brokers", "controllers"]  # listeners that only nodes use
            else:
                senders += addresses(named([word], self.scene), self.scene)
        return senders

    def _on_frame(self, broker: int, frame: SeenFrame) -> None:
        options = self.options
        action = ACTIONS[options.what] if frame.acted else None
        self.scene.frames.add(self.scene.step.id, self.scene.step.cluster, broker, self._api, frame, action)
        with self._lock:
            begins = frame.acted and self._first is None
            if frame.acted and (self._first is None or frame.at_ns < self._first.at_ns):
                self._first = frame
        if begins:
            self.acted(frame.at_ns)

    def _requests_text(self) -> str:
        return f"{self._api} requests from {', '.join(self.options.parties)}"

    def _counts_text(self, counts: FrameCounts) -> str:
        options = self.options
        how = {"delay": f" by {format_duration(options.delay or 0)}", "error": f" {options.error}"}
        done = ACTIONS[options.what] + how.get(options.what, "")
        return f"{counts.seen:,} requests seen, {counts.matched:,} matched, {counts.acted:,} {done}"

    def _first_frame_text(self, frame: SeenFrame) -> str:
        after_ms = (frame.at_ns - self._injected_ns) / MS
        return (
            f"the first {after_ms:,.0f} ms after the injection (version {frame.api_version}, correlation id "
            f"{frame.correlation_id}, client {frame.client_id}, connection {frame.connection})"
        )
