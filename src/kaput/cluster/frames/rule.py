"""A rule of the proxy: which requests it matches, and which of these it acts upon.

A rule comes as JSON from kaput (frame_proxy.py); link.py applies it. Counts are exact; the number of
reported frames is bounded.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from typing import Any

from kaput.cluster.frames.connection_end import Request

REPORTED_ACTED = 10_000  # the most frames acted upon that are reported, per rule and proxy
REPORTED_PASSED = 100  # the same for frames that matched but passed


class FrameRule:
    """One rule in force at one proxy. `report` is called with the details of frames that matched."""

    def __init__(self, spec: Mapping[str, Any], report: Callable[[dict[str, Any]], None]) -> None:
        self.id: str = spec["rule"]
        self.api: int = spec["api"]
        self.what: str = spec["what"]
        self.delay_s: float = spec["delay_s"]
        self._nth: int | None = spec["nth"]
        self._share: float = spec["share"]
        self._from: list[str] | None = spec["from"]
        self._answers: Mapping[str, str] = spec["answers"]
        self._draw = random.Random(spec["seed"])
        self._report = report
        self.matched = self.acted = 0
        self.ended = False

    def acts_on(self, request: Request, listener: str, peer: tuple[str, int]) -> bool:
        """Whether the rule acts on the request. Counts and reports it if it matches."""
        if request.api != self.api or not self._matches_sender(listener, peer[0]):
            return False
        self.matched += 1
        acts = self._is_chosen(request)
        self.acted += acts
        passed = self.matched - self.acted
        if self.acted <= REPORTED_ACTED if acts else passed <= REPORTED_PASSED:
            self._report(
                {
                    "rule": self.id,
                    "at_ns": time.time_ns(),
                    "acted": acts,
                    "api_version": request.version,
                    "correlation_id": request.correlation_id,
                    "client_id": request.client_id,
                    "connection": f"{peer[0]}:{peer[1]}",
                }
            )
        return acts

    def answer(self, request: Request) -> bytes:
        """The rule's error response, in the request's version."""
        body = bytes.fromhex(self._answers[str(request.version)])
        return (4 + len(body)).to_bytes(4, "big") + request.data[8:12] + body

    def _matches_sender(self, listener: str, host: str) -> bool:
        return self._from is None or listener in self._from or host in self._from

    def _is_chosen(self, request: Request) -> bool:
        if self.what == "observe" or (self.what == "error" and str(request.version) not in self._answers):
            return False
        if self._nth is not None:
            return self.matched == self._nth
        return self._draw.random() * 100 < self._share
