"""A client process as its parent sees it: starts it, sends it instructions, reads its messages, ends it.

A slot in a group outlives its process. Not here: which clients there are (supervisor.py).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from kaput.core import TopicPartition
from kaput.errors import LabError
from kaput.evidence.recorder import Recorder
from kaput.evidence.schemas import SKIPPED
from kaput.processes.ending import KILL_TIMEOUT_S
from kaput.processes.ownership import OwnedProcess, Owner
from kaput.processes.pausable import PausableProcess
from kaput.scenario.values import Goal
from kaput.workload.client_spec import Instruction, file_name, write_spec

READY_TIMEOUT_S = 120
_OUTPUT_S = 10.0  # the longest to wait for the end of its output: a stray child may hold the pipe open
_POLL_S = 0.001
# A static member that may not go on, and one that may not join: in librdkafka's words, and Java's.
FENCED, UNRELEASED = "FENCED_INSTANCE_ID", "UNRELEASED_INSTANCE_ID"
_FENCED = re.compile(f"({FENCED}|same group.instance.id)|{UNRELEASED}|ID is still used")
MOVES = ("held", "moved", "began")
_FULL_BYTES = 1 << 16  # with less free space a disk counts as full
# Handles a client's message: its `kind` and other fields (client_spec.py: ClientMessage).
OnMessage = Callable[[Mapping[str, Any]], None]


@dataclass
class ClientProcess:
    """A client process and what it has reported so far."""

    name: str
    process: OwnedProcess
    stderr: Path
    reported: dict[str, threading.Event] = field(
        default_factory=lambda: {kind: threading.Event() for kind in ("ready", "sent", "done")}
    )
    trouble: str | None = None
    findings: list[str] = field(default_factory=list)
    """What is wrong with a client that is the user's own program."""
    notes: list[str] = field(default_factory=list)
    """What became of its clients, though it went on."""
    client_pid: int | None = None
    """The process that sends or reads, if that is a child of this one."""
    kind: str = ""
    """The kind of client, for reports."""
    library: str = ""
    """The library it reported when ready, such as `kafka-clients 4.3.1`."""
    ready_ns: int | None = None
    """When a member had joined its group, as it reported."""
    producer: int | None = None
    """Its producer number, if it sends."""
    killed: bool = False
    """Whether a fault killed it, so that it could not report its last outcomes."""
    returns: bool = False
    """Whether the fault that killed it has yet to start it again."""
    moves: dict[str, list[Mapping[str, Any]]] = field(default_factory=lambda: {kind: [] for kind in MOVES})
    """What it has reported of its moves, by kind (moves.py)."""
    output_ended: threading.Event = field(default_factory=threading.Event)
    """Set once its output has been read to the end."""

    @property
    def pid(self) -> int:
        """The process that sends or reads, which faults hit."""
        return self.process.pid if self.client_pid is None else self.client_pid

    @property
    def pids(self) -> list[int]:
        """The process that sends or reads and, of a program, everything that it started."""
        if self.client_pid is None:
            return [self.process.pid]
        with contextlib.suppress(psutil.Error):
            children = psutil.Process(self.client_pid).children(recursive=True)
            return [self.client_pid, *(child.pid for child in children)]
        return [self.client_pid]

    def signal(self, number: int) -> None:
        """Sends a signal to the process that sends or reads, and of a program to all that it started (it may
        be a shell that started the client); does nothing if it has ended.
        """
        if self.client_pid is None:
            self.process.signal(number)
        elif self.process.running:  # its parent has not reaped it yet, so the pid cannot be reused
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.client_pid, number)

    def kill(self) -> int:
        """SIGKILLs what sends or reads; returns its end (ns), with all output recorded. Raises LabError."""
        self.killed = True
        if self.client_pid is None:
            return self.process.kill()
        hit = self.pids
        self.signal(signal.SIGKILL)
        limit = time.monotonic() + KILL_TIMEOUT_S
        while self.process.running and any(_exists(pid) for pid in hit):
            if time.monotonic() > limit:
                raise LabError(
                    f"{self.name} (pid {self.client_pid}) is still there {KILL_TIMEOUT_S:.0f} s after SIGKILL"
                )
            time.sleep(_POLL_S)
        time.sleep(_POLL_S)  # its last lines have times up to the end of their millisecond
        gone_ns = time.time_ns()
        if self.process.wait(KILL_TIMEOUT_S) is None:
            self.process.kill()
        return gone_ns

    def go(self) -> None:
        """Lets a producer start. Raises LabError if it has already ended."""
        if not self._write(b"go\n"):
            self.process.wait(_OUTPUT_S)
            raise LabError(self.ended())

    def send(self, kind: Instruction, **more: Any) -> None:
        """Sends one line to a client that has started; does nothing if it has ended."""
        self._write(json.dumps({"kind": kind, **more}).encode() + b"\n")

    def await_ready(self, limit: float) -> None:
        """Waits until it is ready, at most until `limit` (monotonic clock). Raises LabError."""
        while not self.reported["ready"].wait(0.1):
            self.check("ready")
            if time.monotonic() > limit:
                raise LabError(f"{self.name} was not ready within {READY_TIMEOUT_S} s")

    def check(self, kind: str) -> None:
        """Raises LabError if it has ended on its own without reporting `kind`."""
        if not self.killed and not self.process.running and not self.has_reported(kind):
            raise LabError(self.ended())

    def has_reported(self, kind: str) -> bool:
        """Whether a client that has ended reported `kind`."""
        # Another thread reads the pipe, and may not have read the last lines yet.
        if not self.reported[kind].is_set():
            self.output_ended.wait(_OUTPUT_S)
        return self.reported[kind].is_set()

    def ended(self) -> str:
        """How it ended on its own, as a sentence."""
        lines = self.stderr.read_text(errors="replace").strip().splitlines()[-5:]
        why = self.trouble or "\n".join(lines) or _no_output(self.stderr.parent)
        return f"{self.name} ended on its own ({_how(self.process.returncode)}): {why}"

    def _write(self, line: bytes) -> bool:
        stdin = self.process.popen.stdin
        assert stdin is not None
        try:
            stdin.write(line)
            stdin.flush()
        except (BrokenPipeError, ValueError):  # ValueError: closed below after an earlier line
            with contextlib.suppress(OSError):
                stdin.close()  # Python would try to write the buffered rest again at exit
            return False
        return True

    def listen(self, on_message: OnMessage) -> None:
        """Reads its messages until its output ends."""
        try:
            self._read_messages(on_message)
        finally:
            self.output_ended.set()

    def _read_messages(self, on_message: OnMessage) -> None:
        assert self.process.popen.stdout is not None
        for line in self.process.popen.stdout:
            try:
                message = json.loads(line)
            except ValueError:
                continue  # the half line of a killed client
            if message["kind"] == "trouble":
                self.trouble = message["message"]
            elif message["kind"] == "note":
                self.notes.append(message["message"])
            elif message["kind"] == "client-pid":
                self.client_pid = message["pid"]
            elif message["kind"] == "finding" and self.killed and message.get("ended"):
                continue  # the fault ended it, and this is no mistake of the program
            elif message["kind"] == "finding":
                self.findings.append(f"{self.name}: {message['message']}")
            elif message["kind"] in self.moves:
                self.moves[message["kind"]].append(message)
            elif message["kind"] in self.reported:
                self.library = message.get("library") or self.library
                self.ready_ns = message.get("at_ns") if message["kind"] == "ready" else self.ready_ns
                self.reported[message["kind"]].set()
            else:
                on_message(message)


def start_client(
    owner: Owner,
    scratch: Path,
    name: str,
    module: str,
    spec: Any,
    on_message: OnMessage,
    env: Mapping[str, str] | None = None,
) -> ClientProcess:
    """Starts `module` with a spec (client_spec.py), and a thread that reads its messages. Raises LabError."""
    path = scratch / f"{file_name(name)}.json"
    write_spec(path, spec)
    stderr = path.with_name(f"{file_name(name)}.err")
    with stderr.open("wb") as errors:
        process = owner.spawn(
            [sys.executable, "-m", module, str(path)],
            name=name,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=env,
        )
    client = ClientProcess(name, process, stderr)
    threading.Thread(target=client.listen, args=(on_message,), name=f"listen-{name}", daemon=True).start()
    return client


def _exists(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _no_output(folder: Path) -> str:
    """Why a client printed no error: it cannot if the disk is full."""
    if shutil.disk_usage(folder).free < _FULL_BYTES:
        return f"no space is left on the disk of {folder}"
    return "no error output"


def _how(status: int | None) -> str:
    if status is not None and status < 0:
        return f"killed by {signal.Signals(-status).name}"
    return f"exit status {status}"


Launch = Callable[[int, str, OnMessage], ClientProcess]  # (number, member name, message handler)


@dataclass(frozen=True)
class MemberPace:
    """How fast a member works: the milliseconds each record should take, and what records took in total."""

    ms: int
    records: int
    spent_ns: int


@dataclass(frozen=True)
class MemberSeek:
    """Where a member went by itself: (partition, the position it had, the lower one); `error`: why not."""

    at_ns: int
    moves: list[tuple[TopicPartition, int, int]]
    error: str


class MemberSlot(PausableProcess):
    """Member `number` of a group. `launch` starts a process for it under a new name."""

    def __init__(
        self,
        folder: Path,
        group: str,
        number: int,
        launch: Launch,
        cluster: str | None = None,
        why_fenced: Callable[[str], str] = lambda error: "",
    ) -> None:
        self.group, self.id, self.cluster = group, number, cluster
        self._why_fenced = why_fenced
        self._folder, self._launch = folder, launch
        self._clients: list[ClientProcess] = []
        self._intended = True
        self.troubles: list[str] = []
        self.fencings: list[str] = []
        """Of its processes that were fenced or refused for their group.instance.id, as the scenario asks."""
        self.owned: list[tuple[int, frozenset[TopicPartition]]] = []
        """Its partitions from each time (ns) on, in order of time; none of a member of a share group."""
        self.pace_report: MemberPace | None = None
        self.seek_report: MemberSeek | None = None
        self.last_error = ""
        """The last error that its current client reported and handles by itself."""

    @property
    def title(self) -> str:
        return f"member {self.id} of {self.group}"

    @property
    def client(self) -> ClientProcess:
        """Its current process. Raises LabError before the first start."""
        if not self._clients:
            raise LabError(f"{self.title} was never started")
        return self._clients[-1]

    @property
    def clients(self) -> list[ClientProcess]:
        return list(self._clients)

    @property
    def process(self) -> OwnedProcess:
        return self.client.process

    @property
    def member(self) -> str:
        """The name of its current process in the evidence."""
        count = len(self._clients)
        return f"member-{self.id}" if count < 2 else f"member-{self.id}.{count}"

    @property
    def pid(self) -> int | None:
        return self.client.pid if self._clients else None

    @property
    def running(self) -> bool:
        return bool(self._clients) and self.process.running

    @property
    def ready(self) -> bool:
        return bool(self._clients) and self.client.reported["ready"].is_set()

    @property
    def joined_ns(self) -> int | None:
        """When its process had joined the group, as it reported."""
        return self.client.ready_ns

    def owns(self) -> frozenset[TopicPartition]:
        """Its partitions, as last reported."""
        return self.owned[-1][1] if self.owned else frozenset()

    def start(self) -> None:
        """Starts a process for it; does nothing if one runs. Does not wait until it is ready."""
        if self.running:
            return
        self._note_end()
        count = len(self._clients) + 1
        name = f"member-{self.id}" if count == 1 else f"member-{self.id}.{count}"
        self._intended, self.last_error = False, ""
        self._clients.append(self._launch(self.id, name, self._on_message))

    def kill(self) -> int:
        """SIGKILLs it and records that in group_events; returns when it ended (ns). Raises LabError."""
        self._intended = True
        at_ns = self.client.kill()
        self._gone(at_ns)
        # A separate file: the member's own stays as the kill left it.
        writer = f"{file_name(f'{self.group}-{self.member}')}~killed"
        with Recorder(self._folder, "group_events", writer, self.cluster) as events:
            events.row(group=self.group, member=self.member, kind="killed", at_ns=at_ns)
        return at_ns

    def committed(self, offsets: Mapping[TopicPartition, int], at_ns: int) -> None:
        """Records offsets that an operator committed for its group, under its name."""
        writer = f"{file_name(f'{self.group}-{self.member}')}~reset"
        with Recorder(self._folder, "group_events", writer, self.cluster) as events:
            for (topic, partition), offset in offsets.items():
                events.row(
                    group=self.group, member=self.member, kind="committed", at_ns=at_ns,
                    topic=topic, partition=partition, offset=offset,
                )  # fmt: skip

    def skipped(self, ranges: Mapping[TopicPartition, tuple[int, int]], at_ns: int) -> None:
        """Records what an operator moved its group past, under its name."""
        writer = f"{file_name(f'{self.group}-{self.member}')}~skipped"
        with Recorder(self._folder, "group_events", writer, self.cluster) as events:
            for (topic, partition), (offset, until) in ranges.items():
                events.row(
                    group=self.group, member=self.member, kind=SKIPPED, at_ns=at_ns,
                    topic=topic, partition=partition, offset=offset, until=until,
                )  # fmt: skip

    def terminate(self, timeout_s: float) -> bool:
        """Sends SIGTERM, on which it leaves its group; returns whether it ended within `timeout_s`."""
        self._intended = True
        self.process.signal(signal.SIGTERM)
        if self.process.wait(timeout_s) is None:
            return False
        self._gone(self.process.ended_ns or time.time_ns())
        return True

    def work(self, ms: int | None) -> None:
        """Makes each record take `ms` from now on (None: no change); the answer arrives in `pace_report`."""
        if ms is not None:
            self.client.send("pace", ms=ms)
        self.client.send("report-pace")

    def seek(self, goal: Goal) -> None:
        """Makes it go there in each of its partitions; the answer arrives in `seek_report`."""
        self.client.send("seek", **goal._asdict())

    def await_ready(self, limit: float) -> None:
        """As of its client; a member that is fenced before it is ready is not waited for."""
        try:
            self.client.await_ready(limit)
        except LabError:
            if not self.fenced:
                raise

    @property
    def fenced(self) -> str:
        """That its process was fenced or refused, if it was."""
        self._note_end()
        return self.fencings[-1] if self.fencings and not self.running else ""

    def unexpected_ends(self) -> list[str]:
        """Sentences about its processes that ended on their own."""
        self._note_end()
        return self.troubles

    def _note_end(self) -> None:
        if not self._clients or self._intended or self.running:
            return
        if not self.client.has_reported("done") or self.client.trouble:
            self._intended = True
            found = _FENCED.search(self.client.trouble or "")
            if found and (why := self._why_fenced(FENCED if found[1] else UNRELEASED)):
                self.fencings.append(f"{self.title} was {'fenced' if found[1] else 'refused'}: {why}")
            else:
                self.troubles.append(self.client.ended())

    def _started(self) -> ClientProcess:
        return self.client

    def _gone(self, at_ns: int) -> None:
        if self.owned:
            self.owned.append((at_ns, frozenset()))

    def _on_message(self, message: Mapping[str, Any]) -> None:
        if message["kind"] == "owns":
            places = frozenset(TopicPartition(*each) for each in message["partitions"])
            self.owned.append((message["at_ns"], places))
        elif message["kind"] == "pace":
            self.pace_report = MemberPace(message["ms"], message["records"], message["spent_ns"])
        elif message["kind"] == "error":
            self.last_error = message["message"]
        elif message["kind"] == "sought":
            moves = [(TopicPartition(*at), begin, to) for *at, begin, to in message["moves"]]
            self.seek_report = MemberSeek(message["at_ns"], moves, message["error"])
