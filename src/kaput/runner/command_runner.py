"""Runs the scenario's commands with a timeout, and keeps their output in RUN_DIR/commands.

kaput ends commands that run too long, but not processes they leave behind: a heal may start a broker.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from kaput.cluster.kafka_cluster import KafkaCluster
from kaput.errors import LabError
from kaput.faults.fault import CommandResult
from kaput.processes.ownership import Owner
from kaput.runner.cleanup import CleanupJournal, PendingHeal
from kaput.scenario.fault_kinds import filled_in

_LAST_CHARACTERS = 300


class CommandRunner:
    """Implements faults.fault.Commands on the brokers of this cluster."""

    def __init__(self, owner: Owner, folder: Path, kafka: KafkaCluster, journal: CleanupJournal) -> None:
        self._owner, self._folder, self._kafka, self._journal = owner, folder, kafka, journal

    def run(
        self, step: str, kind: str, broker: int, line: str, known: Mapping[str, str], timeout_s: float
    ) -> CommandResult:
        """Runs a command for one broker. Raises LabError if it cannot be started."""
        filled = self._filled(broker, known)
        environment = {f"KAPUT_{key.upper()}": value for key, value in filled.items()}
        environment |= {"KAPUT_STEP": step, "KAPUT_BOOTSTRAP_SERVERS": self._kafka.bootstrap_servers}
        self._folder.mkdir(exist_ok=True)
        path = self._folder / f"{step}-{kind}-{broker}.txt"
        words = filled_in(line, filled)
        with path.open("ab") as output:
            output.write(f"$ {shlex.join(words)}\n".encode())
            output.flush()
            return self._run(words, f"{kind} of {step}", environment, output, path, timeout_s)

    def add_pending_heal(
        self, step: str, brokers: Sequence[int], heal: str, known: Mapping[str, str]
    ) -> None:
        """Records how to heal the brokers in case kaput is killed."""
        heals = [filled_in(heal, self._filled(broker, known)) for broker in brokers] if heal else []
        self._journal.add_pending_heal(PendingHeal(step=step, brokers=list(brokers), heals=heals))

    def heal_done(self, step: str) -> None:
        """Records that the step is healed."""
        self._journal.heal_done(step)

    def _filled(self, broker: int, known: Mapping[str, str]) -> dict[str, str]:
        endpoint = self._kafka.broker_endpoints.get(broker)
        if endpoint is None:
            raise LabError(
                f"node {broker} is not a broker, so its address is unknown: commands work on brokers"
            )
        return {**known, "broker": str(broker), "host": endpoint.host, "port": str(endpoint.port)}

    def _run(
        self,
        words: list[str],
        name: str,
        environment: Mapping[str, str],
        output: IO[bytes],
        path: Path,
        timeout_s: float,
    ) -> CommandResult:
        begin = output.tell()
        process = self._owner.spawn(
            words, name=name, stdout=output, stderr=subprocess.STDOUT, env=environment, marked=False
        )
        status = process.wait(timeout_s)
        if status is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # with all children of its shell
            process.kill()
        ended = "timed out: killed" if status is None else f"exit status {status}"
        output.write(f"({ended}, {time.strftime('%H:%M:%S', time.gmtime())})\n".encode())
        return CommandResult(status, _last_line(path, begin))


def _last_line(path: Path, begin: int) -> str:
    with path.open("rb") as file:
        file.seek(begin)
        lines = file.read().decode(errors="replace").split("\n(")[0].strip().splitlines()
    return lines[-1][:_LAST_CHARACTERS] if lines else ""
