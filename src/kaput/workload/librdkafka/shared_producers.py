"""Several producers in one process: `python -m kaput.workload.librdkafka.shared_producers SPEC.json`.

Each is the same as in its own process (producer.py), in a thread: its client, its numbers, its evidence.
Hundreds of processes would need more memory than the brokers; at modest rates the threads mostly wait.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import Any

from kaput.workload.client_main import follow_input, run_client
from kaput.workload.client_spec import notify
from kaput.workload.librdkafka.client_setup import notify_ready, tune_garbage_collection
from kaput.workload.librdkafka.producer import Sender, connect_or_exit, sender_of


def run(senders: Sequence[Sender]) -> None:
    """Runs them from `ready` to `done`, reporting for all of them together. If one raises, stops the others
    and re-raises.
    """
    tune_garbage_collection()
    signal.signal(signal.SIGTERM, lambda *_: _stop(senders))
    with ThreadPoolExecutor(len(senders)) as pool:
        try:
            _all(pool.submit(connect_or_exit, sender) for sender in senders)
            notify_ready()
            sys.stdin.readline()
            follow_input(partial(_stop, senders), partial(_instruct, senders))
            _all(pool.submit(sender.send_all) for sender in senders)
            notify("sent", attempted=sum(sender.counts[0] for sender in senders))
            _all(pool.submit(sender.finish) for sender in senders)
        finally:
            _stop(senders)
    acked = sum(sender.counts[1] for sender in senders)
    notify("done", attempted=sum(sender.counts[0] for sender in senders), acked=acked)


def _all(parts: Iterable[Future[None]]) -> None:
    """Waits for all of them, or until one has failed; re-raises its exception."""
    for part in wait(list(parts), return_when=FIRST_EXCEPTION).done:
        part.result()


def _instruct(senders: Sequence[Sender], message: Mapping[str, Any]) -> None:
    for sender in senders:
        sender.on_instruction(message)


def _stop(senders: Sequence[Sender]) -> None:
    for sender in senders:
        sender.stopping.set()


def main() -> None:
    """Runs the producers of one process until every outcome is known."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # each client is connected to every broker
    specs = json.loads(Path(sys.argv[1]).read_text())["producers"]
    run([sender_of(spec) for spec in specs])


if __name__ == "__main__":
    run_client(main)
