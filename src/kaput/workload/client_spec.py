"""What a client process is started with, as one JSON document: plain values, fast to import and to read.

In the other direction a client prints one JSON object per line on its stdout (kinds in `ClientMessage`).

At the end: how client processes start and stop: every client module's `main` is passed to `run_client`. An
operating system error (a full disk, a read-only folder) is reported as a sentence, since a traceback would
help no user.
"""

from __future__ import annotations

import _thread
import contextlib
import hashlib
import json
import re
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Literal

from kaput.cluster.access import Access
from kaput.processes.skip_pandas import skip_pandas
from kaput.scenario.vocabulary import GroupType

# ready: can start; a member joined at `at_ns`. threshold: the N-th attempt over all producers was made.
# sent: every attempt was made. done: every outcome is known and recorded. trouble: it cannot continue.
# owns: a member's partitions from now on. pace: how long its records take. finding: an error of a client
# that is the user's own program; the run continues. client-pid: the child process that sends or reads.
# replayed: messages of a store that Kafka has acknowledged. replay: a replay's summary, at its end.
# held: it has stopped using its cluster. moved: it uses another one now (moving.py). began: the offsets at
# which a moved member actually started. sought: where a member went by itself. note: what became of a client
# whose process goes on.
# warm: the brokers are warm after `seconds`; `p99_ms` is the 99th percentile of acknowledgement latency.
ClientMessage = Literal[
    "ready", "threshold", "sent", "done", "trouble", "finding", "owns", "pace", "client-pid", "warm",
    "replayed", "replay", "held", "moved", "began", "sought", "error", "note",
]  # fmt: skip
Acknowledgement = Literal["accepting", "releasing", "rejecting"]  # as in share_events
# What a client gets on its stdin, one JSON object per line. pace: each record takes `ms`.
# report-pace: print `pace`. seek: go by so many records, to an offset or a time. hold, move: moving.py.
# enough: send no more, and wait for all outcomes.
Instruction = Literal["pace", "report-pace", "seek", "hold", "move", "enough"]


class NotAuthorizedError(Exception):
    """The client is not authorized; the text is a sentence that says for what."""


@dataclass(frozen=True)
class ProducerSpec:
    """What one producer does. `rate` 0 is as fast as possible. It sends until `messages` or `duration_ms`;
    without either, until the instruction `enough`.

    `partitions` 0: their number changes; `partition`: set if all messages go to one partition;
    `transactions`: scenario/producers.py; `text`: whether payloads are text; `access`: see
    client_settings; `on_failure`: scenario/stores.py, with the URLs of its `stores` by name; `cluster`:
    the name of the one it sends to, if there are several; `starts_ms`: how long it waits before it sends;
    `timestamps_ms`: how far timestamps are from the time of the attempt; `process`: 2 if it was killed and
    started again, and so on.
    """

    folder: str
    run_id: str
    producer: int
    topic: str
    partitions: int
    messages: int | None
    duration_ms: int | None
    rate: float
    payload_bytes: int
    key: str | int
    round_robin: bool
    retries_disabled: bool
    config: dict[str, Any]
    counters: str
    producers: int
    thresholds: list[int]
    transactions: dict[str, Any] | None = None
    text: bool = False
    access: str | None = None
    on_failure: dict[str, Any] | None = None
    cluster: str | None = None
    partition: int | None = None
    starts_ms: int = 0
    timestamps_ms: int | None = None
    process: int = 1

    @property
    def writer(self) -> str:
        return f"producer-{self.producer}" + (f".{self.process}" if self.process > 1 else "")

    @property
    def chooses(self) -> bool:
        """Whether the producer itself chooses: `seq` goes to `seq % partitions`, unless all go to one."""
        return self.round_robin or self.partitions == 1 or self.partition is not None


@dataclass(frozen=True)
class SharedProducersSpec:
    """The producers of one process: the fields of a ProducerSpec each."""

    producers: list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class CommandProducerSpec(ProducerSpec):
    """For another program. `client_config` is passed through; `who`: its name in messages."""

    command: list[str]
    patience_ms: int
    acks: str
    idempotence: bool
    client_config: dict[str, Any]
    who: str = "its command"
    transactional_id: str | None = None


@dataclass(frozen=True)
class WarmUpSpec:
    """For librdkafka/warm_up.py. `limit_ms`: the longest it takes; `topic`: a temporary one."""

    topic: str
    partitions: int
    limit_ms: int
    config: dict[str, Any]
    access: str | None = None


@dataclass(frozen=True)
class ReplaySpec:
    """For librdkafka/replay.py. `store`: its URL; `rate`: messages per second; None: as fast as possible."""

    run_id: str
    store: str
    rate: float | None
    exactly_once: bool
    config: dict[str, Any]
    access: str | None = None


@dataclass(frozen=True)
class MemberSpec:
    """`commit_every` 0: by time (see scenario/groups.py for its values). `cluster`: as for producers."""

    folder: str
    run_id: str
    group: str
    member: str
    topics: list[str]
    config: dict[str, Any]
    type: GroupType = "classic"
    commit: Literal["after", "before", "auto"] = "after"
    commit_sync: bool = False
    commit_every: int = 0
    processing_ms: int = 0
    access: str | None = None
    cluster: str | None = None

    @property
    def writer(self) -> str:
        """The name of the member's evidence files: unique and valid whatever the group's name."""
        return file_name(f"{self.group}-{self.member}")


@dataclass(frozen=True, kw_only=True)
class CommandMemberSpec(MemberSpec):
    """For a client that is the user's own program; `client_config` is passed through to it."""

    command: list[str]
    isolation: str
    client_config: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class JavaMemberSpec(MemberSpec):
    """For Kafka's VerifiableConsumer or VerifiableShareConsumer; `command` starts it."""

    command: list[str]


@dataclass(frozen=True, kw_only=True)
class PipeMemberSpec(MemberSpec):
    """For a member of a pipe. `outputs`: its ProducerSpec; `size`: the most records per transaction."""

    outputs: dict[str, Any]
    size: int


@dataclass(frozen=True)
class ShareMemberSpec(MemberSpec):
    """What a share group member does. `release_every` and `reject_every`: None for never."""

    explicit: bool = False
    release_every: int | None = None
    reject_every: int | None = None

    def acknowledgement(self, offset: int | None, delivery_count: int | None) -> Acknowledgement:
        """How a record is acknowledged: the same for every member that acquires it. A released record is
        accepted when it comes again, so the drain ends with all records accepted or rejected.
        """
        assert offset is not None
        if self.reject_every is not None and (offset + 1) % self.reject_every == 0:
            return "rejecting"
        if delivery_count == 1 and self.release_every is not None and (offset + 1) % self.release_every == 0:
            return "releasing"
        return "accepting"


_PLAIN = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")


def file_name(text: str) -> str:
    """`text` if it is a safe file name; otherwise its safe part and a hash that makes it unique. Group ids
    can be anything: longer than file names may be, with slashes, starting with a dot or underscore (Parquet
    readers skip such files), or differing only in case. A plain name has no `~`.
    """
    if _PLAIN.fullmatch(text):
        return text
    kept = re.sub(r"[^A-Za-z0-9._-]+", "-", text).lstrip("._-")[:60]
    return f"{kept or 'x'}~{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"


def client_settings(spec: ProducerSpec | MemberSpec | WarmUpSpec | ReplaySpec) -> dict[str, Any]:
    """librdkafka's settings; secrets are in the file `access`, not in the spec. Raises UsageError."""
    given = {} if spec.access is None else Access.read(Path(spec.access)).librdkafka()
    return {**given, **spec.config}


def client_properties(spec: ProducerSpec | MemberSpec) -> dict[str, str]:
    """What the user's own program gets besides its settings: the file with its credentials, if any."""
    return {} if spec.access is None else {"client_properties": spec.access}


def write_spec(
    path: Path, spec: ProducerSpec | SharedProducersSpec | MemberSpec | WarmUpSpec | ReplaySpec
) -> None:
    path.write_text(json.dumps(asdict(spec)))


_printing = threading.Lock()


def notify(kind: ClientMessage, **more: Any) -> None:
    """Sends one message to the supervisor at once; thread-safe."""
    with _printing:
        sys.stdout.write(json.dumps({"kind": kind, **more}) + "\n")
        sys.stdout.flush()


Take = Callable[[Mapping[str, Any]], object]  # handles a line of stdin


def ignore(_message: Mapping[str, Any]) -> None:
    """For clients that get no instructions but to stop."""


def stop_at_sigterm(stop: Callable[[], None]) -> None:
    """Calls `stop` at SIGTERM, in a thread: the handler runs within whatever the main thread does, and would
    wait forever for a lock that the main thread holds, such as that of the Event which it is waiting for.
    """

    def handle(_number: int, _frame: FrameType | None) -> None:
        with contextlib.suppress(RuntimeError):  # the interpreter is ending
            _thread.start_new_thread(stop, ())  # a threading.Thread would take locks itself

    signal.signal(signal.SIGTERM, handle)


def follow_input(stop: Callable[[], None], take: Take) -> None:
    """Passes each line of stdin, a JSON object, to `take` in a thread; calls `stop` when stdin ends."""

    def follow() -> None:
        for line in sys.stdin:
            take(json.loads(line))
        stop()

    threading.Thread(target=follow, daemon=True).start()


def run_client(client: Callable[[], None]) -> None:
    """Runs the client. On OSError reports it, then raises SystemExit (1)."""
    skip_pandas()
    try:
        client()
    except OSError as error:
        where = "" if error.filename is None else f"{error.filename}: "
        notify("trouble", message=f"{where}{error.strerror or error}")
        raise SystemExit(1) from None
