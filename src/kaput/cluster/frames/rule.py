"""A rule of the proxy: which requests it matches, and which of these it acts upon.

A rule comes as JSON from kaput (frame_proxy.py); link.py applies it. Counts are exact; the number of
reported frames is bounded.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kaput.cluster.frames.connection_end import SIZE_BYTES, Request
from kaput.cluster.frames.error_answers import ErrorAnswer, Schema, error_answer

REPORTED_ACTED = 10_000  # the most frames acted upon that are reported, per rule and proxy
REPORTED_PASSED = 100  # the same for frames that matched but passed


class RuleInForce:
    """One rule in force at one proxy. `report` is called with the details of frames that matched."""

    def __init__(self, spec: Mapping[str, Any], report: Callable[[dict[str, Any]], None]) -> None:
        self.id: str = spec["rule"]
        self.api: int = spec["api"]
        self.what: str = spec["what"]
        self.delay_s: float = spec["delay_s"]
        self._nth: int | None = spec["nth"]
        self._share: float = spec["share"]
        self._from: list[str] | None = spec["from"]
        self._schemas: Sequence[Schema] = spec["schemas"]
        self._error = ErrorAnswer(*spec["error"]) if spec["error"] else None
        self._draw = random.Random(spec["seed"])
        self._report = report
        self.matched = self.acted = 0
        self.ended = False

    def acts_on(self, request: Request, listener: str, peer: tuple[str, int]) -> bool:
        """Whether the rule acts on the request. Counts and reports it if it matches."""
        if request.api != self.api or not self._matches_sender(listener, peer[0]):
            return False
        self.matched += 1
        acts = self._is_chosen() and (self._error is None or self.answer(request) is not None)
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

    def answer(self, request: Request) -> bytes | None:
        """The rule's error response to a request; None if it cannot be answered with that error."""
        assert self._error is not None
        frame = error_answer(self._schemas, request.data[SIZE_BYTES:], self._error)
        return None if frame is None else len(frame).to_bytes(4, "big") + frame

    def _matches_sender(self, listener: str, host: str) -> bool:
        return self._from is None or listener in self._from or host in self._from

    def _is_chosen(self) -> bool:
        if self.what == "observe":
            return False
        if self._nth is not None:
            return self.matched == self._nth
        return self._draw.random() * 100 < self._share
