"""Writes the frames table: what the fault `protocol` saw and did. Filled by protocol.py."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from kaput.cluster.frames.frame_proxy import SeenFrame

if TYPE_CHECKING:
    from kaput.evidence.recorder import Recorder

_FLUSHED_SINGLY = 100  # the first rows are flushed one by one, later ones in batches of this size


class FrameLog:
    """Takes rows from the threads of all proxies, until it is closed. Without a recorder, discards them."""

    def __init__(self, recorder: Recorder | None = None) -> None:
        self._recorder, self._lock = recorder, threading.Lock()
        self.rows = 0

    def add(
        self, fault: str, cluster: str | None, broker: int, api: str, frame: SeenFrame, action: str | None
    ) -> None:
        """Records a frame that matched the step with id `fault`; `action` is None if it passed unchanged."""
        with self._lock:
            if self._recorder is None:
                return
            self._recorder.row(
                fault, broker, api, frame.api_version, frame.correlation_id, frame.client_id,
                frame.connection, action, frame.at_ns, cluster,
            )  # fmt: skip
            self.rows += 1
            if self.rows <= _FLUSHED_SINGLY or self.rows % _FLUSHED_SINGLY == 0:
                self._recorder.flush()

    def flush(self) -> None:
        """Writes the remaining rows."""
        with self._lock:
            if self._recorder is not None:
                self._recorder.flush()

    def close(self) -> None:
        """Discards later rows: a fault that was abandoned may still see frames."""
        self.flush()
        with self._lock:
            self._recorder = None
