"""Drives kaput as a user does, from the command line: real brokers, real clients, real Spark where asked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pyarrow.dataset as ds

from waiting import PATIENCE_S

KAPUT = [str(Path(sys.executable).with_name("kaput"))]
# For every run whose verdict is looked at: brokers stay cold (most tests don't look at latencies), and the
# drain ends when everything is read, which on a busy machine may take longer than a user would wait.
UNHURRIED = ["--set", "workload.warm-up=0s", "--set", f"workload.drain.timeout={PATIENCE_S:.0f}s"]
# Before a command: the owner of the files without root's capabilities, as good as any user, and able to read
# the program. (To be root in a namespace of its own the user 0 needs setfcap, which others don't.)
WITHOUT_RIGHTS = ["setpriv", "--bounding-set=-all,+setfcap", "--inh-caps=-all"] if os.geteuid() == 0 else []


@dataclass(frozen=True)
class Result:
    """What one call of kaput gave: exit status, findings (or None), and its stderr."""

    status: int
    findings: dict[str, Any]
    stderr: str
    folder: Path

    def count(self, name: str) -> int:
        """The count of an anomaly, over all groups."""
        return sum(a["count"] for a in self.findings["anomalies"] if a["name"] == name)

    def causes(self, name: str) -> dict[str, int]:
        """The causes of an anomaly, zeros left out."""
        found = next(a for a in self.findings["anomalies"] if a["name"] == name)
        return {cause: count for cause, count in found["causes"].items() if count}

    def fault(self, kind: str) -> dict[str, Any]:
        """The findings of the only fault of that kind."""
        (found,) = [f for f in self.findings["faults"] if f["fault"] == kind]
        return dict(found)

    def rows(self, table: str, *columns: str) -> list[dict[str, Any]]:
        """The rows of a table of the evidence; all columns where none is named."""
        found = ds.dataset(self.folder / "evidence" / table).to_table(columns=list(columns) or None)
        return list(found.to_pylist())

    def lost(self) -> list[dict[str, Any]]:
        """The sends that were acknowledged and are not in the log, found with Python sets, by time."""
        sends = self.rows("sends", "producer", "seq", "topic", "partition", "outcome", "offset", "done_ns")
        stored = {(row["producer"], row["seq"]) for row in self.rows("log", "producer", "seq")}
        lost = [s for s in sends if s["outcome"] == "acked" and (s["producer"], s["seq"]) not in stored]
        return sorted(lost, key=lambda send: int(send["done_ns"]))

    def assert_adds_up(self) -> None:
        """Fates add up to the messages sent, in all and in each group; every fault's proof is there."""
        sent = self.findings["totals"]["sent"]
        assert sum(cell["count"] for cell in self.findings["fates"]) == sent
        for group in self.findings["groups"]:
            assert sum(cell["count"] for cell in group["fates"]) == sent
            assert group["drained"]
        assert self.findings["totals"]["unread"] == 0
        for fault in self.findings["faults"]:
            assert fault["bit"] and fault["proof"], fault

    def assert_witnessed(self, broker: int, epoch: int) -> None:
        """Each lost message was seen at its offset in the log of the deposed leader, under its epoch.

        Those of the last moment before the truncation may be missing, and no row is there twice.
        """
        rows, lost = self.rows("replica_log"), self.lost()
        names = ("broker", "topic", "partition", "offset", "leader_epoch")
        assert len({tuple(row[name] for name in names) for row in rows}) == len(rows)
        assert {(row["broker"], row["leader_epoch"]) for row in rows} == {(broker, epoch)}
        who = ("producer", "seq", "topic", "partition", "offset")
        seen = {tuple(row[name] for name in who) for row in rows}
        missed = [send for send in lost if tuple(send[name] for name in who) not in seen]
        assert lost and len(missed) < len(lost) / 20
        assert all(send["done_ns"] >= lost[-1]["done_ns"] - 200_000_000 for send in missed)


def mentions(path: Path) -> list[str]:
    """Command lines of living processes that name the path, but for `kaput run` itself: brokers, clients, and
    Spark by its scratch.
    """
    return [line[:150] for line in command_lines(path) if "kaput run" not in line]


def command_lines(path: Path) -> list[str]:
    """Those of living processes that name the path."""
    found = []
    for process in psutil.process_iter():
        try:
            line = " ".join(process.cmdline())
        except psutil.Error:
            continue
        if str(path) in line and process.pid != os.getpid():
            found.append(line)
    return found


def client(runs: Path, name: str) -> psutil.Process | None:
    """The process of a client of the only run, once it is there."""
    for process in psutil.process_iter():
        try:
            line = process.cmdline()
        except psutil.Error:
            continue
        if line and line[-1].startswith(str(runs)) and line[-1].endswith(f"/clients/{name}.json"):
            return process
    return None


class Kaput:
    """Runs kaput's command line with its run folders below one directory."""

    def __init__(self, runs: Path) -> None:
        self.runs = runs

    def run(self, scenario: str, *options: str) -> Result:
        """`kaput run SCENARIO --json`; fails if stdout is not one JSON document. Brokers stay cold:
        most tests don't look at latencies.
        """
        done = subprocess.run(
            # Most tests don't look at the page, which takes seconds; `--page` among the options has it again.
            [*KAPUT, "run", scenario, "--json", "--no-page", "--runs", str(self.runs), *UNHURRIED, *options],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.stdout, f"exit {done.returncode}\n{done.stderr}"
        findings = json.loads(done.stdout)
        assert "error" not in findings, f"exit {done.returncode}\n{done.stderr}"
        (folder,) = [
            p.parent for p in self.runs.glob("*/manifest.json") if findings["run"]["id"] in p.read_text()
        ]
        return Result(done.returncode, findings, done.stderr, folder)

    def analyze(self, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
        """`kaput analyze FOLDER --no-page`."""
        return subprocess.run(
            [*KAPUT, "analyze", str(folder), "--no-page", *options],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Any other call."""
        return subprocess.run(
            [*KAPUT, *arguments], capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )


class Standing:
    """kaput with a state of its own."""

    def __init__(self, state: Path) -> None:
        self.state = state
        # A socket's path may have 107 bytes, and pytest's directories are long.
        self.env = {**os.environ, "XDG_STATE_HOME": str(state)}

    def __call__(self, *arguments: str, status: int = 0, stdin: str = "") -> str:
        """What it printed; fails with what it said where the status is another one."""
        done = subprocess.run(
            [*KAPUT, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
            env=self.env,
        )
        assert done.returncode == status, (arguments, done.returncode, done.stdout, done.stderr)
        return done.stdout or done.stderr

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """The same, without waiting for its end."""
        return subprocess.Popen(
            [*KAPUT, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.env
        )

    def json(self, *arguments: str, status: int = 0) -> Any:
        """The same, read."""
        return json.loads(self(*arguments, "--json", status=status))

    def left(self) -> list[str]:
        """Processes that have to do with this state."""
        found = [process.info["cmdline"] for process in psutil.process_iter(["cmdline"])]
        return [" ".join(words) for words in found if words and str(self.state) in " ".join(words)]
