"""The outcome of each message of a VerifiableProducer, line by line, as rows of sends.

Its values are consecutive numbers, and its log shows each before it enters the producer's buffer: so
attempts are known exactly, with their times. Not here: the program (program.py), what its lines mean
(output_lines.py).
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from kaput.evidence.attempts import AttemptWriter
from kaput.evidence.recorder import Recorder
from kaput.workload.client_spec import ProducerSpec
from kaput.workload.command.program import Line, integer
from kaput.workload.counters import FIELDS
from kaput.workload.java.output_lines import LogTimes, OutcomeLine, parse_append, parse_outcome, start_ns
from kaput.workload.payload.text import prefix_of

_CELL = {name: FIELDS.index(name) for name in ("acked", "failed", "unknown")}
_IGNORED = frozenset({"startup_complete", "shutdown_requested", "shutdown_complete"})
_UNKNOWN_LINE = "not a line that VerifiableProducer prints"


class JavaSends:
    """Records one producer. `on_line` runs in one thread, the rest in another.

    `on_attempt(count)` is called after each attempt with the number of attempts so far.
    """

    def __init__(self, spec: ProducerSpec, counts: memoryview, on_attempt: Callable[[int], None]) -> None:
        folder = Path(spec.folder)
        self._spec, self._counts, self._on_attempt = spec, counts, on_attempt
        self._recorder = Recorder(folder, "sends", f"producer-{spec.producer}", spec.cluster)
        self._attempts = AttemptWriter(folder, spec.producer, spec.topic, spec.cluster)
        self._prefix = f"{prefix_of(uuid.UUID(spec.run_id), spec.producer)}."
        self._recording = threading.Lock()
        self._times = LogTimes()
        self._outstanding: dict[int, int] = {}  # attempt_ns by seq
        self._last_ns = 0  # of the last line: the next attempt is later
        self._unlogged = 0
        self._summary: tuple[int, int] | None = None
        self.released_ns = 0
        """No attempt was made before this."""
        self.attempted = 0

    @property
    def outstanding(self) -> int:
        """How many messages have no outcome yet."""
        return len(self._outstanding)

    def on_line(self, line: Line) -> str | None:
        """Handles one line; a clause about what is wrong with it."""
        name = line.get("name")
        if name == "log":
            return self._appended(line)
        if name in ("producer_send_success", "producer_send_error"):
            return self._answered(line)
        if name == "tool_data":
            sent, acked = line.get("sent"), line.get("acked")
            if not integer(sent) or not integer(acked):
                return "tool_data needs the numbers sent and acked"
            self._summary = (sent, acked)
        elif name not in _IGNORED:
            return _UNKNOWN_LINE
        self._last_ns = max(self._last_ns, start_ns(line) or 0)
        return None

    def _appended(self, line: Line) -> str | None:
        found = parse_append(line, self._times)
        if found is None:
            # The same log reports the start of the producer.
            return None if "Kafka producer started" in str(line.get("text")) else _UNKNOWN_LINE
        seq = self._seq(found.value)
        if seq is None:
            return "its value is not one that it was to send"
        at_ns = max(found.at_ns, self.released_ns)
        self._last_ns = max(self._last_ns, at_ns)
        if seq >= self.attempted:
            self._attempted(seq, at_ns)
        elif seq in self._outstanding:
            self._outstanding[seq] = at_ns  # the buffer was full or its batch closed: the last time counts
        return None

    def _answered(self, line: Line) -> str | None:
        found = parse_outcome(line, time.time_ns(), self._spec.retries_disabled)
        if found is None:
            return "neither a value with its partition nor one with its exception"
        seq = self._seq(found.value)
        if seq is None:
            return "its value is not one that it was to send"
        if seq >= self.attempted:
            # Rejected before it entered the buffer, and attempted after everything printed so far.
            self._unlogged += found.outcome == "acked"
            self._attempted(seq, max(self._last_ns, self.released_ns))
        attempt_ns = self._outstanding.pop(seq, None)
        if attempt_ns is None:
            return "a second outcome for that seq"
        self._row(seq, attempt_ns, found)
        self._last_ns = max(self._last_ns, start_ns(line) or 0)
        return None

    def _attempted(self, seq: int, at_ns: int) -> None:
        """Records that message as attempted and, as they are consecutive, all before it."""
        for one in range(self.attempted, seq + 1):
            self._attempts.attempt(one, at_ns)
            self._outstanding[one] = at_ns
        self._unlogged += seq - self.attempted
        self.attempted = self._counts[0] = seq + 1
        self._on_attempt(self.attempted)

    def _row(self, seq: int, attempt_ns: int, found: OutcomeLine) -> None:
        spec = self._spec
        row = (
            spec.producer,
            seq,
            spec.topic,
            found.partition,
            attempt_ns,
            max(found.at_ns, attempt_ns),
        )
        with self._recording:
            self._recorder.row(*row, found.outcome, found.offset, found.error)
        self._counts[_CELL[found.outcome]] += 1

    def _seq(self, value: str) -> int | None:
        rest = value.removeprefix(self._prefix)
        most = self._spec.messages or 2**31
        if rest == value or not rest.isascii() or not rest.isdigit() or len(rest) > len(str(most)):
            return None
        seq = int(rest)
        return seq if seq < most else None

    def flush(self) -> None:
        """Hands everything recorded so far to the operating system."""
        with self._recording:
            self._recorder.flush()

    def close(self) -> None:
        """Ends the recording. Messages without an outcome become `unknown` when the run is sealed."""
        with self._recording:
            self._recorder.close()
        self._attempts.close()

    def contradictions(self) -> list[str]:
        """Sentences about contradictions in the output of a producer that ended cleanly."""
        problems = []
        acked = self._counts[_CELL["acked"]]
        if self._summary is None:
            problems.append("it ended without its summary (tool_data)")
        elif not self._agrees(self._summary[0]) or self._summary[1] != acked:
            problems.append(
                f"its summary has {self._summary[0]:,} messages sent and {self._summary[1]:,} acknowledged; "
                f"it printed {self.attempted:,} and {acked:,}"
            )
        if self._unlogged:
            problems.append(
                f"its log lacks {self._unlogged:,} attempts that its outcomes show: "
                "they have the time of the line before them"
            )
        return problems

    def _agrees(self, sent: int) -> bool:
        """Whether its summary matches its lines. A stopped tool may attempt one more after its summary."""
        return sent == self.attempted or (self._spec.messages is None and sent == self.attempted - 1)
