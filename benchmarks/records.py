"""What `everything.py` learns from the log and from sends."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl
from peers import OUTCOMES, files
from places import (
    SECOND_NS,
    Histogram,
    Ints,
    Places,
    arrays,
    batches,
    begun_s,
    heads,
    identified,
    position,
    refuse,
)

NO_RECORD = -2  # at an offset that the log does not have; not -1, which message 0 would seem to follow
UNSENT = len(OUTCOMES)
STEP_NS = (
    1_000_000  # acknowledgements of one run are no further apart, so that longer silences lie between runs
)


@dataclass
class Oddities:
    """What few rows say: claims to a position that the log does not simply bear out, and damaged records."""

    claims: list[tuple[Ints, Ints]] = field(default_factory=list)  # positions, and an identity for each
    damaged: list[Ints] = field(default_factory=list)

    def strange(self, rows: pl.DataFrame) -> int:
        """Takes up rows that are no message of the run. How many of them have an identity."""
        self.damaged.append(rows.filter(~pl.col("intact"))["position"].to_numpy())
        unsent = rows.filter((pl.col("producer") >= 0) & (pl.col("seq") >= 0))
        identity = -(unsent["producer"].cast(pl.Int64) * 2**40 + unsent["seq"]) - 1
        self.claims.append((unsent["position"].to_numpy(), identity.to_numpy()))
        return unsent.height

    def inconsistent(self, log: Log, nobody: int) -> int:
        """How many positions have more than one identity, the log's own among them."""
        position, identity = (np.concatenate(each) for each in zip(*self.claims, strict=True))
        message = log.holder[position]
        known = (message != NO_RECORD) & (message != nobody)
        every = pl.DataFrame({
            "position": np.concatenate([position, position[known]]),
            "identity": np.concatenate([identity, message[known]]),
        })  # fmt: skip
        identities = every.group_by("position").agg(pl.col("identity").n_unique())
        return identities.filter(pl.col("identity") > 1).height


@dataclass(frozen=True)
class Log:
    """`holder`: the message at each position. `stored`: how often each message is."""

    holder: Ints
    stored: Ints
    phantoms: int


@dataclass(frozen=True)
class Sends:
    """By message: `outcome` and `attempt_ns`. `silences` by (producer, partition)."""

    outcome: Ints
    attempt_ns: Ints
    latency: Histogram
    attempts: Histogram  # by second of the run, like `acks`
    acks: Histogram
    silences: pl.DataFrame


def read_log(run: Path, where: Places, odd: Oddities) -> Log:
    """Lays every record in its place."""
    holder = np.full(where.positions, NO_RECORD, np.int32)
    stored = np.zeros(where.nobody + 1, np.uint16)
    records, phantoms = 0, 0
    for batch in batches(files(run, "log"), *identified(where)):
        at, producer, seq = arrays(batch, "position", "producer", "seq")
        message, strange = where.messages(producer, seq)
        holder[at] = message
        np.add.at(stored, message, np.uint16(1))
        phantoms += odd.strange(batch[strange])
        records += batch.height
    refuse(np.count_nonzero(holder != NO_RECORD) != records, "an offset stands twice in the log")
    return Log(holder, stored, phantoms)


def read_sends(run: Path, where: Places, log: Log, odd: Oddities) -> Sends:
    """Lays every attempt in its place; the other questions about sends are asked on the way."""
    outcome = np.full(where.nobody + 1, UNSENT, np.uint8)
    attempt_ns = np.zeros(where.nobody + 1, np.int64)
    latency, attempts, acks = Histogram(), Histogram(), Histogram()
    begun, active = begun_s(run), []
    stream = (pl.col("producer") * where.partitions + pl.col("partition")).alias("stream")
    columns = ["producer", "seq", stream, position(where), "attempt_ns", "done_ns", "outcome"]
    for batch in batches(files(run, "sends"), *columns):
        producer, seq, attempt = arrays(batch, "producer", "seq", "attempt_ns")
        message = where.begin[producer] + seq  # whatever stands in sends is a message
        attempt_ns[message] = attempt
        attempts.add(attempt // SECOND_NS - begun)
        acked = batch["outcome"] == "acked"
        outcome[message] = OUTCOMES.index("acked")
        rest = batch.filter(~acked)
        number = rest["outcome"].replace_strict(OUTCOMES, range(UNSENT), return_dtype=pl.UInt8)
        outcome[message[~acked.to_numpy()]] = number.to_numpy()
        active.append(unacknowledged(rest))
        told = batch.select("stream", "position", "attempt_ns", "done_ns").filter(acked)
        if told.is_empty():
            continue
        refuse(any(told.null_count().row(0)), "acknowledged, but not where or when")
        streams, at, attempt, done = arrays(told, "stream", "position", "attempt_ns", "done_ns")
        latency.add((done - attempt) // 1000)
        acks.add(done // SECOND_NS - begun)
        active.append(acknowledged(streams, attempt, done))
        message = message[acked.to_numpy()]
        astray = np.flatnonzero(log.holder[at] != message)
        odd.claims.append((at[astray], message[astray]))
    refuse(np.count_nonzero(outcome != UNSENT) != where.sent.sum(), "a message has several rows in sends")
    return Sends(outcome, attempt_ns, latency, attempts, acks, silences(pl.concat(active)))


def acknowledged(stream: Ints, attempt: Ints, done: Ints) -> pl.DataFrame:
    """(stream, begin_ns, first_ns, last_ns): runs of acknowledgements, by the first attempt among them."""
    # Backwards in time is a step of more than STEP_NS, too.
    begin = heads((np.diff(done).view(np.uint64) > STEP_NS) | (stream[1:] != stream[:-1]))
    if not len(done):
        begin = begin[:0]
    first = np.minimum.reduceat(attempt, begin) if len(done) else attempt
    last = done[np.append(begin[1:], len(done)) - 1] if len(done) else done
    return pl.DataFrame(
        {"stream": stream[begin], "begin_ns": first, "first_ns": done[begin], "last_ns": last}
    )


def unacknowledged(rows: pl.DataFrame) -> pl.DataFrame:
    """The same of other attempts, a row each, where the partition is known; `first_ns` is null."""
    last = pl.max_horizontal("attempt_ns", "done_ns")
    found = rows.select("stream", begin_ns="attempt_ns", first_ns=pl.lit(None, pl.Int64), last_ns=last)
    return found.drop_nulls("stream")


def silences(active: pl.DataFrame) -> pl.DataFrame:
    """(stream, longest_ns): the longest time without an acknowledgement, from the first attempt to the last
    that is known."""
    ends = active.group_by("stream").agg(pl.col("begin_ns").min(), pl.col("last_ns").max())
    borders = [ends.select("stream", first_ns=name, last_ns=name) for name in ("begin_ns", "last_ns")]
    runs = active.drop_nulls("first_ns").select("stream", "first_ns", "last_ns")
    ordered = pl.concat([runs, *borders]).sort("stream", "first_ns")
    silence = pl.col("first_ns") - pl.col("last_ns").cum_max().shift(1).over("stream")
    longest = ordered.select("stream", longest_ns=silence).group_by("stream").agg(pl.col("longest_ns").max())
    refuse((longest["longest_ns"] <= STEP_NS).any(), f"no silence is longer than {STEP_NS} ns")
    return longest.sort("stream")
