"""Reads a run in progress repeatedly, and makes snapshots of it for browsers.

Counts are provisional until the drain has read everything back. A dead recorder is reported. subscribers.py
has one reader for all browsers that watch the same run.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import ValidationError
from pydantic_core import from_json

from kaput.dashboard.safe_files import Runs
from kaput.dashboard.watching.run_tails import CurrentState, LedgerFile, Longs, RunTails, rows_of
from kaput.errors import KaputError
from kaput.evidence.findings import Findings
from kaput.evidence.folder import Manifest
from kaput.evidence.recording import first_holder
from kaput.report.sentences import verdict_sentence
from kaput.scenario.vocabulary import CLIENT_OUTCOMES, OUTCOMES

COUNTS = ("sent", "acked", "failed", "unknown", "delivered")
MOST = 1_200  # steps; beyond it, pairs of steps are merged
_SECOND_NS = 1_000_000_000
_FLOOR_MS, _PER_DECADE, _BUCKETS = 0.01, 32, 256  # from 10 us to 1000 s


class StepRow(NamedTuple):
    """One step: its number, its counts, and percentiles of the latency of its acknowledgements in ms."""

    number: int
    sent: int
    acked: int
    failed: int
    unknown: int
    delivered: int
    p50: float | None
    p99: float | None


class StepTable(NamedTuple):
    """All steps at one moment. `changed`: for each step, the version in which it last changed."""

    width_s: float
    rows: tuple[StepRow, ...]
    changed: tuple[int, ...]

    def since(self, version: int) -> list[StepRow]:
        """The steps that changed after `version`."""
        return [row for row, at in zip(self.rows, self.changed, strict=True) if at > version]


class LiveSteps:
    """Counts from `began_ns` on. Not thread-safe."""

    def __init__(self, began_ns: int) -> None:
        self.began_ns, self._width_ns = began_ns, _SECOND_NS
        self._counts = np.zeros((len(COUNTS), MOST), np.int64)
        self._histograms = np.zeros((MOST, _BUCKETS), np.int32)
        self._touched = np.zeros(MOST, bool)
        self._rows: list[StepRow] = []
        self._changed: list[int] = []
        self._newest = 0

    def add(self, name: str, at_ns: Longs) -> None:
        """Adds one to the count `name` at each of these times."""
        if len(at_ns):
            at, _ = self._numbers(at_ns)
            self._counts[COUNTS.index(name)] += np.bincount(at, minlength=MOST)
            self._touched[at] = True

    def add_latencies(self, attempt_ns: Longs, done_ns: Longs) -> None:
        if len(done_ns):
            at, within = self._numbers(done_ns)
            ms = np.maximum((done_ns - attempt_ns)[within] / 1e6, _FLOOR_MS)
            buckets = np.minimum(np.log10(ms / _FLOOR_MS) * _PER_DECADE, _BUCKETS - 1).astype(np.int64)
            np.add.at(self._histograms, (at, buckets), 1)
            self._touched[at] = True

    def table(self, version: int) -> StepTable:
        """The current steps. `version`: recorded for the steps that changed since the last call."""
        while len(self._rows) <= self._newest:
            self._rows.append(StepRow(len(self._rows), 0, 0, 0, 0, 0, None, None))
            self._changed.append(version)
        for number in np.flatnonzero(self._touched).tolist():
            self._rows[number] = self._row(number)
            self._changed[number] = version
        self._touched[:] = False
        return StepTable(self._width_ns / 1e9, tuple(self._rows), tuple(self._changed))

    def _numbers(self, at_ns: Longs) -> tuple[Longs, np.ndarray[Any, np.dtype[np.bool_]]]:
        """The step numbers of these times, and which times have one: times far off are ignored."""
        latest = int(at_ns.max())
        if (latest - self.began_ns) // _SECOND_NS < 400 * MOST:
            while (latest - self.began_ns) // self._width_ns >= MOST:
                self._widen()
        numbers = (at_ns - self.began_ns) // self._width_ns
        within = (numbers >= 0) & (numbers < MOST)
        chosen: Longs = numbers[within]
        self._newest = max(self._newest, int(chosen.max())) if len(chosen) else self._newest
        return chosen, within

    def _widen(self) -> None:
        half = MOST // 2
        counts = self._counts.reshape(len(COUNTS), half, 2).sum(axis=2)
        histograms = self._histograms.reshape(half, 2, _BUCKETS).sum(axis=1)
        self._counts[:], self._histograms[:] = 0, 0
        self._counts[:, :half], self._histograms[:half] = counts, histograms
        self._width_ns, self._newest = self._width_ns * 2, self._newest // 2
        self._rows, self._changed = [], []
        self._touched[: self._newest + 1] = True

    def _row(self, number: int) -> StepRow:
        counts = self._counts[:, number].tolist()
        sent, acked, failed, unknown, delivered = counts
        p50, p99 = self._percentile(number, 0.5), self._percentile(number, 0.99)
        return StepRow(number, sent, acked, failed, unknown, delivered, p50, p99)

    def _percentile(self, number: int, share: float) -> float | None:
        upto = np.cumsum(self._histograms[number])
        if not upto[-1]:
            return None
        bucket = int(np.searchsorted(upto, share * upto[-1]))
        return float(f"{_FLOOR_MS * 10 ** ((bucket + 0.5) / _PER_DECADE):.3g}")


_COLUMNS = {
    "sends": ("attempt_ns", "done_ns", "outcome"),
    "deliveries": ("group", "polled_ns"),
    "faults": (
        "id", "fault", "target", "brokers", "injected_ns", "effective_ns", "healed_ns", "bit", "proof",
    ),
    "samples": ("at_ns", "name", "labels", "value"),
}  # fmt: skip
EVERY_S = 0.2
_UNJUDGED_S = 0.5  # between looks at a run that is not being recorded
_RATE_S = 1.0  # rates are over the last second


@dataclass(frozen=True)
class RunSnapshot:
    """The state of a run at one moment. `head`: everything except the steps, as JSON; `over`: it is final."""

    version: int
    head: dict[str, Any]
    steps: StepTable
    over: bool
    more: bool = False  # whether there is more to read

    @property
    def wait_s(self) -> float:
        """How long to wait until the next look: longer if the run is not being recorded."""
        quiet = self.head["state"] != "recording" or self.head["recorder"]["dead"]
        return 0.0 if self.more else _UNJUDGED_S if quiet else EVERY_S

    def text(self, since: int) -> str:
        """The snapshot as JSON, with the steps that changed after version `since`; 0: all steps."""
        steps = {"width_s": self.steps.width_s, "rows": self.steps.since(since)}
        return json.dumps({**self.head, "whole": since == 0, "steps": steps}, separators=(",", ":"))


class RunReader:
    """Reads one run. `look` is not thread-safe."""

    def __init__(self, runs: Runs, name: str) -> None:
        self._runs, self._name = runs, name
        self._tails = RunTails(runs, name, _COLUMNS)
        self._version = 0
        self._total = _total(runs, name)
        self._ledger = LedgerFile(runs, name)
        self._begin(0)

    def _begin(self, began_ns: int) -> None:
        """Starts from scratch. `began_ns`: second 0 of the charts; the load begins later than the folder."""
        self.close()
        self._steps, self._current = LiveSteps(began_ns), CurrentState()
        self._outcomes: dict[str, int] = dict.fromkeys(OUTCOMES, 0)
        self._attempted = 0
        self._delivered: dict[str, int] = {}
        self._newest_ns = 0
        self._totals: deque[tuple[float, dict[str, int]]] = deque()

    def look(self) -> RunSnapshot:
        """Reads all new data. Raises OSError, KaputError if the run cannot be read."""
        manifest = self._manifest()
        # In this order: the data of a run is complete before its manifest says sealed.
        more = self._read(manifest)
        verdict = self._verdict(manifest)
        self._version += 1
        head, table = self._head(manifest, verdict), self._steps.table(self._version)
        watched = manifest.state == "sealed" and bool(head["ledger"] and head["ledger"]["final"])
        return RunSnapshot(self._version, head, table, over=verdict is not None or watched, more=more)

    def close(self) -> None:
        self._tails.close()

    def _manifest(self) -> Manifest:
        try:
            document = from_json(self._runs.read(self._name, "manifest.json"))
            return Manifest.model_validate(document)
        except (ValueError, ValidationError) as error:
            raise KaputError(f"{self._name}/manifest.json: {str(error).splitlines()[0]}") from None

    def _read(self, manifest: Manifest) -> bool:
        """Reads new rows; returns whether there are more."""
        if self._steps.began_ns != manifest.started_ns:
            self._begin(manifest.started_ns)
        for table, found in self._tails.take():
            getattr(self, f"_{table}")(found)
        return self._tails.more

    # The rows of each table, by its name.

    def _attempts(self, made: Longs) -> None:
        self._attempted += len(made)
        self._note_newest(made)
        self._steps.add("sent", made)

    def _sends(self, batches: Iterator[pa.RecordBatch]) -> None:
        for batch in batches:
            outcomes, done = batch.column("outcome"), batch.column("done_ns")
            for outcome in self._outcomes:
                of_it = pc.fill_null(pc.equal(outcomes, outcome), False)
                self._outcomes[outcome] += int(pc.sum(of_it).as_py() or 0)
                known = pc.and_(of_it, pc.is_valid(done))
                done_ns = _longs(done.filter(known))
                self._note_newest(done_ns)
                if outcome in CLIENT_OUTCOMES:
                    self._steps.add(outcome, done_ns)
                if outcome == "acked":
                    self._steps.add_latencies(_longs(batch.column("attempt_ns").filter(known)), done_ns)

    def _deliveries(self, batches: Iterator[pa.RecordBatch]) -> None:
        for batch in batches:
            for found in pc.value_counts(batch.column("group")).to_pylist():
                group = str(found["values"])
                self._delivered[group] = self._delivered.get(group, 0) + int(found["counts"])
            polled_ns = _longs(batch.column("polled_ns"))
            self._note_newest(polled_ns)
            self._steps.add("delivered", polled_ns)

    def _faults(self, batches: Iterator[pa.RecordBatch]) -> None:
        for row in rows_of(batches):
            self._current.fault(row)

    def _samples(self, batches: Iterator[pa.RecordBatch]) -> None:
        for row in rows_of(batches):
            self._current.sample(row)

    def _note_newest(self, at_ns: Longs) -> None:
        if len(at_ns):
            self._newest_ns = max(self._newest_ns, int(at_ns.max()))

    def _verdict(self, manifest: Manifest) -> dict[str, Any] | None:
        """The verdict, once there are findings."""
        if manifest.state == "recording":
            return None
        try:
            findings = Findings.model_validate_json(self._runs.read(self._name, "findings.json"))
        except (OSError, ValueError):
            return None
        return {**verdict_of(findings), "lost": findings.lost}

    def _head(self, manifest: Manifest, verdict: dict[str, Any] | None) -> dict[str, Any]:
        places, left_out = self._current.places()
        counts = {
            # Other programs' writers may record outcomes without attempts.
            "attempted": max(self._attempted, sum(self._outcomes.values()), self._current.attempted),
            **self._outcomes,
            "delivered": sum(self._delivered.values()),
        }
        now_ns = time.time_ns()
        return {
            "run": self._name,
            "scenario": manifest.scenario,
            "began_ns": str(self._steps.began_ns),
            "phase": _phase(manifest, verdict),
            "state": "judged" if verdict else manifest.state,
            "recorder": self._recorder(manifest),
            "clock_s": round(max(0, now_ns - self._steps.began_ns) / 1e9, 2) if self._newest_ns else None,
            "behind_s": round((now_ns - self._newest_ns) / 1e9, 2) if self._newest_ns else None,
            "total": self._total,
            "counts": counts,
            "groups": dict(sorted(self._delivered.items())),
            "rates": self._rates(counts),
            "faults": self._current.faults(self._steps.began_ns),
            "places": places,
            "places_left_out": left_out,
            "lags": self._current.lags(),
            "ledger": self._ledger.look(),
            "verdict": verdict,
        }

    def _rates(self, counts: dict[str, int]) -> dict[str, float]:
        """Rates per second, over the last second."""
        now = time.monotonic()
        self._totals.append((now, counts))
        while len(self._totals) > 2 and now - self._totals[1][0] >= _RATE_S:
            self._totals.popleft()
        since, before = self._totals[0]
        if now - since <= 0:
            return dict.fromkeys(counts, 0.0)
        return {name: round((counts[name] - before[name]) / (now - since), 1) for name in counts}

    def _recorder(self, manifest: Manifest) -> dict[str, Any]:
        """Whether the recorder is dead, and a message."""
        where, message, dead = self._runs.root / self._name, "", False
        holder = first_holder(where) if manifest.state == "recording" else None
        if holder is not None and (dead := holder.dead()):
            message = (
                f"The recorder (process {holder.pid}) is dead. What it had recorded is kept: "
                f"kaput analyze {where} judges it."
            )
        elif manifest.state == "sealed" and manifest.ended_ns is not None and self._ledger.look():
            message = f"The watch is over; kaput analyze {where} judges each message."
        return {"dead": dead, "message": message}


def verdict_of(findings: Findings) -> dict[str, str]:
    """The verdict with its sentence; `kind` is `loss` for a run that held with permitted loss."""
    kind = "loss" if findings.verdict == "held" and findings.lost else findings.verdict
    return {"verdict": findings.verdict, "kind": kind, "message": verdict_sentence(findings)}


def _phase(manifest: Manifest, verdict: dict[str, Any] | None) -> str:
    if verdict:
        return "judged"
    return manifest.phase or ("recording" if manifest.state == "recording" else "judge")


def _longs(column: pa.Array) -> Longs:
    values: Longs = column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return values


def _total(runs: Runs, name: str) -> int | None:
    """How many messages the scenario sends; None if it sets a duration, or cannot be read."""
    from kaput.scenario.loader import read_resolved
    from kaput.scenario.timeline import total_messages

    try:
        runs.check(name, "scenario.yaml")
        return total_messages(read_resolved(runs.root / name / "scenario.yaml"))
    except (OSError, KaputError):
        return None
