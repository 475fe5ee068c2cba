"""What became of each message of a VerifiableProducer, line by line, as rows of sends.

Its values are consecutive numbers, and each is told of before it goes into the producer's buffer: so attempts
are known exactly, with their times. Not here: the program (java_program.py), what its lines mean
(java_lines.py).
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from kaput.evidence.attempts import AttemptWriter
from kaput.evidence.recorder import Recorder
from kaput.evidence.text import prefix_of
from kaput.workload.commanded import Line, integer
from kaput.workload.counters import FIELDS
from kaput.workload.java_lines import Answered, LogTimes, answered, appended, begun_ns
from kaput.workload.order import ProducerOrder

_CELL = {name: FIELDS.index(name) for name in ("acked", "failed", "unknown")}
_SAYS_NOTHING = frozenset({"startup_complete", "shutdown_requested", "shutdown_complete"})
_RUBBISH = "none of what VerifiableProducer prints"


class JavaSends:
    """The record of one producer. `heard` in one thread, the rest in another.

    `on_attempt(count)` is called after each attempt, with how many there have been.
    """

    def __init__(self, order: ProducerOrder, counts: memoryview, on_attempt: Callable[[int], None]) -> None:
        folder = Path(order.folder)
        self._order, self._counts, self._on_attempt = order, counts, on_attempt
        self._recorder = Recorder(folder, "sends", f"producer-{order.producer}")
        self._attempts = AttemptWriter(folder, order.producer, order.topic)
        self._prefix = f"{prefix_of(uuid.UUID(order.run_id), order.producer)}."
        self._recording = threading.Lock()
        self._times = LogTimes()
        self._outstanding: dict[int, int] = {}  # attempt_ns by seq
        self._last_ns = 0  # of what was heard last: the next attempt is made after it
        self._untold = 0
        self._summary: tuple[int, int] | None = None
        self.released_ns = 0
        """No attempt was made before this."""
        self.attempted = 0

    @property
    def outstanding(self) -> int:
        """How many messages have no outcome yet."""
        return len(self._outstanding)

    def heard(self, line: Line) -> str | None:
        """One line; a clause about what is wrong with it."""
        name = line.get("name")
        if name == "log":
            return self._appended(line)
        if name in ("producer_send_success", "producer_send_error"):
            return self._answered(line)
        if name == "tool_data":
            sent, acked = line.get("sent"), line.get("acked")
            if not integer(sent) or not integer(acked):
                return "tool_data has the numbers sent and acked"
            self._summary = (sent, acked)
        elif name not in _SAYS_NOTHING:
            return _RUBBISH
        self._last_ns = max(self._last_ns, begun_ns(line) or 0)
        return None

    def _appended(self, line: Line) -> str | None:
        found = appended(line, self._times)
        if found is None:
            # The same log says that the producer is there.
            return None if "Kafka producer started" in str(line.get("text")) else _RUBBISH
        seq = self._seq(found.value)
        if seq is None:
            return "its value is none of those that it was to send"
        at_ns = max(found.at_ns, self.released_ns)
        self._last_ns = max(self._last_ns, at_ns)
        if seq >= self.attempted:
            self._attempted(seq, at_ns)
        elif seq in self._outstanding:
            self._outstanding[seq] = at_ns  # the buffer was full, or its batch closed: the last time counts
        return None

    def _answered(self, line: Line) -> str | None:
        said = answered(line, time.time_ns(), self._order.retries_disabled)
        if said is None:
            return "neither a value with its place nor one with its exception"
        seq = self._seq(said.value)
        if seq is None:
            return "its value is none of those that it was to send"
        if seq >= self.attempted:
            # It was refused before it came to the buffer; and it was tried after all that was heard before.
            self._untold += said.outcome == "acked"
            self._attempted(seq, max(self._last_ns, self.released_ns))
        attempt_ns = self._outstanding.pop(seq, None)
        if attempt_ns is None:
            return "it has answered that seq before"
        self._row(seq, attempt_ns, said)
        self._last_ns = max(self._last_ns, begun_ns(line) or 0)
        return None

    def _attempted(self, seq: int, at_ns: int) -> None:
        """That message and, as they are consecutive, all before it."""
        for one in range(self.attempted, seq + 1):
            self._attempts.attempt(one, at_ns)
            self._outstanding[one] = at_ns
        self._untold += seq - self.attempted
        self.attempted = self._counts[0] = seq + 1
        self._on_attempt(self.attempted)

    def _row(self, seq: int, attempt_ns: int, said: Answered) -> None:
        order = self._order
        row = (order.producer, seq, order.topic, said.partition, attempt_ns, max(said.at_ns, attempt_ns))
        with self._recording:
            self._recorder.row(*row, said.outcome, said.offset, said.error)
        self._counts[_CELL[said.outcome]] += 1

    def _seq(self, value: str) -> int | None:
        rest = value.removeprefix(self._prefix)
        most = self._order.messages or 2**31
        if rest == value or not rest.isascii() or not rest.isdigit() or len(rest) > len(str(most)):
            return None
        seq = int(rest)
        return seq if seq < most else None

    def flush(self) -> None:
        """Everything heard so far is the operating system's after this."""
        with self._recording:
            self._recorder.flush()

    def close(self) -> None:
        """Nothing more is heard. What has no outcome becomes `unknown` when the run is sealed."""
        with self._recording:
            self._recorder.close()
        self._attempts.close()

    def contradictions(self) -> list[str]:
        """Sentences about what does not fit together, of a producer that has ended in good order."""
        said = []
        acked = self._counts[_CELL["acked"]]
        if self._summary is None:
            said.append("it ended without its summary (tool_data)")
        elif not self._agrees(self._summary[0]) or self._summary[1] != acked:
            said.append(
                f"it says that it sent {self._summary[0]:,} messages and that {self._summary[1]:,} were "
                f"acknowledged; it told of {self.attempted:,} and {acked:,}"
            )
        if self._untold:
            said.append(
                f"its log did not tell of {self._untold:,} attempts, which its answers show: "
                "they have the time of what was heard before them"
            )
        return said

    def _agrees(self, sent: int) -> bool:
        """Whether it sent what it told of. One that is told to end may try once more behind its summary."""
        return sent == self.attempted or (self._order.messages is None and sent == self.attempted - 1)
