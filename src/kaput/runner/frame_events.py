"""Clients' requests as events, reported by the proxies in front of the brokers."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import partial

from kaput.cluster.frames.frame_proxy import FrameProxy, FrameRule, SeenFrame
from kaput.cluster.node import Node
from kaput.errors import LabError
from kaput.faults.event_triggers import Occurrence
from kaput.scenario.apis import API_KEYS
from kaput.scenario.events import REQUEST


class FrameEvents:
    """From the first `take` on, every proxy reports requests of these APIs."""

    events = frozenset({REQUEST})

    def __init__(self, nodes: Mapping[int, Node], apis: Collection[str]) -> None:
        self._nodes, self._apis = nodes, apis
        self._watched: set[FrameProxy] = set()
        self._found: list[Occurrence] = []
        self._lock = threading.Lock()

    def take(self) -> list[Occurrence]:
        """New events by time. Raises LabError."""
        for node in list(self._nodes.values()):
            if node.proxy is not None and node.proxy not in self._watched:
                for api in self._apis:
                    rule = FrameRule(f"event-{api}", API_KEYS[api])
                    node.proxy.put(rule, partial(self._on_frame, api, node.title))
                self._watched.add(node.proxy)
        with self._lock:
            found, self._found = self._found, []
        return sorted(found, key=lambda each: each.at_ns or 0)

    def close(self) -> None:
        """Removes the rules: on a warm cluster the proxies stay."""
        for proxy in self._watched:
            with suppress(LabError):  # it went down with its broker's cluster
                for api in self._apis:
                    proxy.end(f"event-{api}")

    def _on_frame(self, api: str, broker: str, frame: SeenFrame) -> None:
        details = f"{broker}, client {frame.client_id}, correlation id {frame.correlation_id}"
        with self._lock:
            self._found.append(Occurrence(REQUEST, (api,), details, frame.at_ns, time.time_ns()))
